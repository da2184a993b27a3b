/* SPDX-License-Identifier: Apache-2.0
 * usdt.h - static probes of a live runtime, for perf, bpftrace and SystemTap: docs/profiling.md lists them.
 *
 * A probe is one no-op instruction and a note in the ELF file until somebody attaches to it.  Its arguments
 * are values that are at hand anyway.  Without sys/sdt.h (package systemtap-sdt-dev) there are no probes. */
#ifndef MO_USDT_H
#define MO_USDT_H
#include <stdint.h>
#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif
#ifndef DTRACE_PROBE4
#define DTRACE_PROBE4(provider, name, a, b, c, d)    ((void)(a), (void)(b), (void)(c), (void)(d))
#define DTRACE_PROBE5(provider, name, a, b, c, d, e) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#define DTRACE_PROBE6(provider, name, a, b, c, d, e, f)                                                      \
    ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f))
#endif

/* A query was accepted; arrival_ns and deadline_ns on the runtime's clock.  The decision that it brought
 * about has been made by then. */
static inline void mo_probe_query_submit(uint64_t query, int tenant, int64_t arrival_ns,
                                         int64_t deadline_ns) {
    DTRACE_PROBE4(moire, query_submit, query, tenant, arrival_ns, deadline_ns);
}

/* Its callback is about to be called; code as in moire.h. */
static inline void mo_probe_query_answer(uint64_t query, int tenant, int code, int64_t latency_ns) {
    DTRACE_PROBE4(moire, query_answer, query, tenant, code, latency_ns);
}

/* Layers [begin, end) of a query are to run on so many cores (or one let of a GPU), in versions for this
 * pressure, in thousandths. */
static inline void mo_probe_decision(uint64_t query, int tenant, int begin, int end, int cores,
                                     int pressure_milli) {
    DTRACE_PROBE6(moire, decision, query, tenant, begin, end, cores, pressure_milli);
}

/* One core begins and ends its share of such a block. */
static inline void mo_probe_block_start(uint64_t query, int tenant, int begin, int end, int core) {
    DTRACE_PROBE5(moire, block_start, query, tenant, begin, end, core);
}
static inline void mo_probe_block_end(uint64_t query, int tenant, int begin, int end, int core) {
    DTRACE_PROBE5(moire, block_end, query, tenant, begin, end, core);
}
#endif
