"""python -m acctax.ops builds all kernels that this machine has compilers for, and says where they are."""

from acctax.ops.build import build
from acctax.ops.build_cuda import build_cuda
from acctax.ops.toolchain import BuildError

for builder in (build, build_cuda):
    try:
        print(builder())
    except BuildError as error:
        print(error)
