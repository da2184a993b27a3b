/* SPDX-License-Identifier: Apache-2.0
 * paper_claims.h - what VELTAIR's paper prints of its policies (Liu et al., ASPLOS 2022, sections 5.2
 * and 5.3). */
#ifndef MO_BENCH_PAPER_CLAIMS_H
#define MO_BENCH_PAPER_CLAIMS_H

/* key: "over_layerwise", highest load of 95 % in time over that of layer-wise scheduling;
 * "latency_over_solo", mean latency at that load over the solo time.  0 = nothing is printed. */
double mo_bench_claim(const char *scenario, const char *policy, const char *key);
#endif
