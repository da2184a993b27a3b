/* SPDX-License-Identifier: Apache-2.0
 * net.h - the differential tester: one case through every way of running it, what was seen, and what
 * differed.
 */
#ifndef MO_DT_NET_H
#define MO_DT_NET_H
#include "tests/differential/case.h"
#include "tests/differential/cover.h"
#include "tests/differential/fault.h"
#include "tests/differential/peer.h"
#include "tests/differential/served.h"

struct dt_net {
    const struct mo_env *env;
    struct dt_peer *peer;     /* NULL = none */
    struct dt_served *server; /* NULL = none */
    const char *folder;       /* of what is written: kernels, failures */
    int kernels_each;         /* most compiled layers of a graph and level; 0 = all */
    struct dt_cover cover;
    int64_t graphs, compiled[MO_ISA_COUNT], kernels, reused, peers, blunt, served;
};

enum dt_ways { DT_BUILT_IN = 1, DT_COMPILED_TOO = 2, DT_PEER_TOO = 4, DT_SERVED_TOO = 8, DT_ALL = 15 };

enum dt_verdict { DT_SAME, DT_DIFFERS, DT_REFUSED };
struct dt_result {
    enum dt_verdict verdict;
    unsigned way; /* enum dt_ways that differed */
    char what[700];
};

/* Runs the case in the ways of the set.  Everything random comes from the case's seed. */
void dt_net_try(struct dt_net *net, const struct dt_case *c, unsigned ways, struct dt_result *out);

/* Plants a fault in the kernels of a level; true: an answer was wrong, so the net sees the fault. *hits:
 * layers that have what the fault needs. */
bool dt_net_fault(const struct dt_case *c, enum mo_isa isa, const struct dt_fault *fault, int *hits);
/* Plants a fault in the C of a family (compiled.h). */
bool dt_net_text_fault(struct dt_net *net, const struct dt_case *c, enum mo_isa isa, const char *family,
                       const char *from, const char *to, int *hits);
#endif
