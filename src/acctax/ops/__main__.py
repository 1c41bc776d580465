"""python -m acctax.ops builds all kernels and says where they are; exit code 1 where one could not be built."""

import argparse
import sys

from acctax.ops.build import build
from acctax.ops.build_cuda import build_cuda
from acctax.ops.toolchain import BuildError

argparse.ArgumentParser(prog="python -m acctax.ops", description=__doc__).parse_args()
failed = False
for builder in (build, build_cuda):
    try:
        print(builder())
    except BuildError as error:
        print(error, file=sys.stderr)
        failed = True
sys.exit(failed)
