# The built-in kernels may fuse multiply and add: -std=c11 would otherwise forbid it.
ISA_base   += -ffp-contract=fast
ISA_avx2   += -ffp-contract=fast
ISA_avx512 += -ffp-contract=fast
ISA_neon   += -ffp-contract=fast
