/* SPDX-License-Identifier: Apache-2.0
 * moire_backend.h - moire under the load of `moire bench`, through its public interface only. */
#ifndef MO_BENCH_MOIRE_BACKEND_H
#define MO_BENCH_MOIRE_BACKEND_H
#include "bench/load/drive.h"

const struct mo_bench_backend *mo_bench_moire_backend(void);
#endif
