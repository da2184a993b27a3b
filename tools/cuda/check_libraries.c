/* SPDX-License-Identifier: Apache-2.0
 * check_libraries.c - the plugin's declarations of cuDNN, cuBLASLt and NVRTC against the toolkit's headers.
 *
 * Compiled by `make cuda`, linked into nothing: every line is a static assertion.  Enumerations without
 * negative values are compatible with `unsigned`, and opaque structs have the libraries' own tags, so whole
 * signatures are compared; types that the libraries leave without a tag are renamed for the comparison. */
#include <stddef.h>
#include <cublasLt.h>
#include <cudnn.h>
#include <nvrtc.h>
#include "runtime/gpu/cuda/blas.h"
#include "runtime/gpu/cuda/dnn.h"
#include "runtime/gpu/cuda/rtc.h"

#define CHECK_VALUE(ours, theirs, value)                                                                     \
    _Static_assert((int)(ours) == (int)(theirs) && (int)(ours) == (value), #theirs);
MO_DNN_VALUES(CHECK_VALUE)
MO_BLAS_VALUES(CHECK_VALUE)

#define CHECK_FIELD(ours, our_field, theirs, their_field)                                                    \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #theirs "." #their_field);
_Static_assert(sizeof(struct mo_dnn_performance) == sizeof(cudnnConvolutionFwdAlgoPerf_t), "performance");
CHECK_FIELD(struct mo_dnn_performance, status, cudnnConvolutionFwdAlgoPerf_t, status)
CHECK_FIELD(struct mo_dnn_performance, time, cudnnConvolutionFwdAlgoPerf_t, time)
CHECK_FIELD(struct mo_dnn_performance, memory, cudnnConvolutionFwdAlgoPerf_t, memory)
_Static_assert(sizeof(struct mo_blas_algorithm) == sizeof(cublasLtMatmulAlgo_t), "algorithm");
_Static_assert(sizeof(struct mo_blas_candidate) == sizeof(cublasLtMatmulHeuristicResult_t), "candidate");
CHECK_FIELD(struct mo_blas_candidate, space, cublasLtMatmulHeuristicResult_t, workspaceSize)
CHECK_FIELD(struct mo_blas_candidate, state, cublasLtMatmulHeuristicResult_t, state)
_Static_assert(CUBLAS_OP_N == 0 && CUBLAS_STATUS_SUCCESS == 0 && CUDNN_STATUS_SUCCESS == 0,
               "zero is success");

#define CHECK_SIGNATURE(field, symbol, arguments)                                                            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&(symbol)), unsigned(*) arguments), #symbol);
MO_RTC_FUNCTIONS(CHECK_SIGNATURE)
#define mo_dnn_performance cudnnConvolutionFwdAlgoPerfStruct
MO_DNN_FUNCTIONS(CHECK_SIGNATURE)
#define mo_blas_layout     cublasLtMatrixLayout_t
#define mo_blas_preference cublasLtMatmulPreference_t
#define mo_blas_desc       cublasLtMatmulDesc_t
#define mo_blas_candidate  cublasLtMatmulHeuristicResult_t
#define mo_blas_algorithm  cublasLtMatmulAlgo_t
#define struct /* theirs are names of types */
MO_BLAS_FUNCTIONS(CHECK_SIGNATURE)
#undef struct
