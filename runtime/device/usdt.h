/* SPDX-License-Identifier: Apache-2.0
 * usdt.h - USDT probes at block start and end, for perf, bpftrace and SystemTap.  They cost one no-op each;
 * without sys/sdt.h (package systemtap-sdt-dev) they are absent. */
#ifndef MO_PROBE_H
#define MO_PROBE_H
#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif
#ifndef DTRACE_PROBE4
#define DTRACE_PROBE4(provider, name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

static inline void mo_probe_block_start(int tenant, int begin, int end, int core) {
    DTRACE_PROBE4(moire, block_start, tenant, begin, end, core);
}
static inline void mo_probe_block_end(int tenant, int begin, int end, int core) {
    DTRACE_PROBE4(moire, block_end, tenant, begin, end, core);
}
#endif
