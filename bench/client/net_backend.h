/* SPDX-License-Identifier: Apache-2.0
 * net_backend.h - a model server under load over its network: the job's "server" is started, and queries go
 * to it over the job's "over". */
#ifndef MO_NET_BACKEND_H
#define MO_NET_BACKEND_H
#include "bench/load/drive.h"

const struct mo_bench_backend *mo_net_backend(void);
#endif
