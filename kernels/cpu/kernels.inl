// Every kernel, in namespace ISA: included once for each instruction set, after its simd_*.h.
namespace acctax::ISA {
namespace {

#include "elements.inl"
#include "rows.inl"
#include "formats.inl"
#include "formats_a8.inl"
#include "linear.inl"
#include "linear_f32.inl"
#include "attend.inl"
#include "vocabulary.inl"
#include "law.inl"

constexpr Kernels table{ISA_NAME, packed_stride,   pack_x, linear, rms_norm, gated,
                        append,   max_rows_scaled, attend, argmax, pick,     law,   checksum};

}  // namespace
}  // namespace acctax::ISA
