/* SPDX-License-Identifier: Apache-2.0
 * replicas.c - best fit by decreasing demand, and levelling; see replicas.h. */
#include "bench/cluster/replicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL_STEPS = 12, TEXT = 200 };
/* A replica takes at least this part of a machine, unless less is left of the model: a copy of the weights
 * for a crumb of the demand is no help. */
static const double CRUMB = 0.02;
/* Replicas of a quarter of a machine at first: several models share each, and one fills what another leaves.
 * Larger ones where memory or the fill suffers. */
static const double pieces[] = {0.25, 0.5, 1};
static const double SUFFERS = 1.02;
static const double ALIKE = 1e-9;

struct packing {
    const struct mo_place_problem *problem;
    double fill;
    double piece;             /* of a machine, that a replica has at most at first */
    double share;             /* of the model that is placed: queries/s on one machine at most */
    double *full, *memory_mb; /* by machine: used */
    double *given;            /* [model][machine] queries/s */
    double *left;             /* by model: without a place */
    const int *order;         /* models, the largest demand first */
    const int *rank;          /* by machine: how many hold more */
    int open;                 /* machines of a lower rank may be used */
};

static double holds(const struct mo_place_problem *p, int model, int node) {
    return p->models[model].holds[p->nodes[node].kind];
}

/* Machines that could take the model if they had nothing else. */
static int takers(const struct packing *k, int model) {
    const struct mo_place_problem *p = k->problem;
    int n = 0;
    for (int i = 0; i < p->n_nodes; i++)
        n += k->rank[i] < k->open && holds(p, model, i) > 0 &&
             p->models[model].memory_mb <= p->nodes[i].memory_mb;
    return n;
}

static double *given(const struct packing *k, int model, int node) {
    return &k->given[(size_t)model * k->problem->n_nodes + node];
}

/* Queries/s of the model that the machine still has room for.  Machines that have it are looked at apart
 * from those that do not. */
static double room(const struct packing *k, int model, int node, bool again) {
    const struct mo_place_problem *p = k->problem;
    const double has = *given(k, model, node), part = k->fill - k->full[node];
    if (k->rank[node] >= k->open || again != (has > 0) || part <= 0) return 0;
    if (!again && k->memory_mb[node] + p->models[model].memory_mb > p->nodes[node].memory_mb) return 0;
    const double free = part * holds(p, model, node), allowed = k->share - has;
    return free < allowed ? free : allowed;
}

/* What a replica there is to have of what is left of the model: even pieces, none larger than `piece`. */
static double wanted(const struct packing *k, int model, int node, double left) {
    const double most = k->piece * k->fill * holds(k->problem, model, node);
    const double piece = left / ceil(left / most * (1 - ALIKE));
    return piece < k->share ? piece : k->share;
}

/* The machine for the next piece of the model: where least is left after it, else the one that takes most;
 * -1 = none.  *takes is how much. */
static int find(const struct packing *k, int model, double left, bool again, double *takes) {
    const struct mo_place_problem *p = k->problem;
    int best = -1, roomiest = -1;
    double least = 0, most = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        const double r = room(k, model, i, again);
        if (r <= 0) continue;
        const double wants = wanted(k, model, i, left), after = (r - wants) / holds(p, model, i);
        if (r >= wants * (1 - ALIKE) && (best < 0 || after < least)) {
            best = i;
            least = after;
            *takes = wants;
        }
        if (best < 0 && r > most && r >= CRUMB * holds(p, model, i)) {
            roomiest = i;
            most = *takes = r;
        }
    }
    return best >= 0 ? best : roomiest;
}

static void place_model(struct packing *k, int model) {
    const struct mo_place_model *m = &k->problem->models[model];
    k->share = takers(k, model) > 1 ? m->qps / 2 : m->qps;
    double left = m->qps;
    while (left > m->qps * ALIKE) {
        double takes;
        int node = find(k, model, left, false, &takes);
        if (node < 0) node = find(k, model, left, true, &takes);
        if (node < 0) break;
        if (!(*given(k, model, node) > 0)) k->memory_mb[node] += m->memory_mb;
        *given(k, model, node) += takes;
        k->full[node] += takes / holds(k->problem, model, node);
        left -= takes;
    }
    k->left[model] = left > m->qps * ALIKE ? left : 0;
}

/* True: everything has a place. */
static bool pack(struct packing *k, double fill, int open) {
    const struct mo_place_problem *p = k->problem;
    bool all = true;
    k->fill = fill;
    k->open = open;
    memset(k->full, 0, (size_t)p->n_nodes * sizeof *k->full);
    memset(k->memory_mb, 0, (size_t)p->n_nodes * sizeof *k->memory_mb);
    memset(k->given, 0, (size_t)p->n_models * p->n_nodes * sizeof *k->given);
    for (int i = 0; i < p->n_models; i++) {
        place_model(k, k->order[i]);
        all = all && k->left[k->order[i]] == 0;
    }
    return all;
}

/* --- what does not fit ---------------------------------------------------------------------------------- */
static const char *missing(const struct packing *k, int model) {
    const struct mo_place_problem *p = k->problem;
    bool answers = false, has_room = false;
    for (int i = 0; i < p->n_nodes; i++) {
        answers |= holds(p, model, i) > 0;
        has_room |= holds(p, model, i) > 0 && k->fill - k->full[i] > CRUMB &&
                    !(k->given[(size_t)model * p->n_nodes + i] > 0);
    }
    if (!answers) return "no machine answers it within its target, even alone";
    if (!takers(k, model)) return "no machine has the memory for it";
    return has_room ? "memory is missing" : "cores are missing";
}

static int complain(const struct packing *k, moire_error *err) {
    const struct mo_place_problem *p = k->problem;
    char text[TEXT] = "";
    int n = 0, shown = 0;
    for (int i = 0; i < p->n_models; i++) {
        const int m = k->order[i];
        const size_t at = strlen(text);
        if (!(k->left[m] > 0)) continue;
        n++;
        char part[TEXT];
        int length =
            snprintf(part, sizeof part, "%s'%s' lacks a place for %.4g of %.4g queries a second (%s)",
                     at ? "; " : "", p->models[m].name, k->left[m], p->models[m].qps, missing(k, m));
        if (length >= (int)(sizeof text - at)) continue;
        memcpy(text + at, part, (size_t)length + 1);
        shown++;
    }
    if (n > shown) return mo_fail(err, MOIRE_EFAILED, "%s; and %d models more do not fit", text, n - shown);
    return mo_fail(err, MOIRE_EFAILED, "%s", text);
}

/* --- the answer ----------------------------------------------------------------------------------------- */
struct ranked {
    double holds;
    int node;
};

static int by_holds(const void *pa, const void *pb) {
    const struct ranked *a = pa, *b = pb;
    if (a->holds != b->holds) return a->holds > b->holds ? -1 : 1;
    return a->node - b->node;
}

/* Machines by what they hold of all models together. */
static int rank_nodes(const struct mo_place_problem *p, int *rank) {
    struct ranked *all = mo_alloc(p->env, (size_t)p->n_nodes * sizeof *all);
    for (int i = 0; all && i < p->n_nodes; i++) {
        all[i] = (struct ranked){0, i};
        for (int m = 0; m < p->n_models; m++)
            all[i].holds += p->models[m].qps > 0 ? holds(p, m, i) / p->models[m].qps : 0;
    }
    if (!all) return MOIRE_ENOMEM;
    qsort(all, (size_t)p->n_nodes, sizeof *all, by_holds);
    for (int i = 0; i < p->n_nodes; i++)
        rank[all[i].node] = i;
    mo_free(p->env, all);
    return MOIRE_OK;
}

static double demand(const struct mo_place_problem *p, int model, int n_kinds) {
    double most = 0;
    for (int i = 0; i < n_kinds; i++)
        if (p->models[model].holds[i] > most) most = p->models[model].holds[i];
    return most > 0 ? p->models[model].qps / most : INFINITY;
}

static void sort_models(const struct mo_place_problem *p, int *order) {
    int n_kinds = 0;
    for (int i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].kind >= n_kinds) n_kinds = p->nodes[i].kind + 1;
    for (int i = 0; i < p->n_models; i++) {
        int at = i;
        double d = demand(p, i, n_kinds);
        for (; at > 0 && demand(p, order[at - 1], n_kinds) < d; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static int copy(const struct packing *k, struct mo_place_answer *out, moire_error *err) {
    const struct mo_place_problem *p = k->problem;
    for (int m = 0; m < p->n_models; m++) {
        const double *given = k->given + (size_t)m * p->n_nodes;
        struct mo_place_list *list = &out->list[m];
        for (int i = 0; i < p->n_nodes; i++)
            list->n += given[i] > 0;
        list->replica = mo_region_array(out->region, (size_t)list->n + 1, sizeof *list->replica);
        if (!list->replica) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a placement");
        for (int i = 0, at = 0; i < p->n_nodes; i++)
            if (given[i] > 0) list->replica[at++] = (struct mo_replica){i, given[i]};
    }
    return MOIRE_OK;
}

/* So few machines, the largest first, take everything at this fill; all of them do. */
static int fewest(struct packing *k, double fill) {
    int high = k->problem->n_nodes, low = high > 1; /* no model hangs on one machine */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (pack(k, fill, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* The least fill up to `limit` at which everything has a place; 0 = there is none. */
static double level(struct packing *k, double limit) {
    const int all = k->problem->n_nodes;
    if (!pack(k, limit, all)) return 0;
    double low = 0, high = limit;
    for (int i = 0; i < LEVEL_STEPS; i++) {
        double middle = (low + high) / 2;
        if (pack(k, middle, all))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static int solve(struct packing *k, struct mo_place_answer *out, moire_error *err) {
    enum { PIECES = sizeof pieces / sizeof *pieces };
    const double limit = k->problem->limit > 0 ? k->problem->limit : 1;
    double fill[PIECES], least = 0;
    for (int i = 0; i < PIECES; i++) {
        k->piece = pieces[i];
        fill[i] = level(k, limit);
        if (!(fill[i] > 0)) continue;
        if (!(least > 0) || fill[i] < least) least = fill[i];
        const int few = fewest(k, limit);
        if (!out->fewest || few < out->fewest) out->fewest = few;
    }
    if (!(least > 0)) {
        pack(k, limit, k->problem->n_nodes);
        return complain(k, err);
    }
    int best = 0;
    while (!(fill[best] > 0) || fill[best] > least * SUFFERS)
        best++;
    k->piece = pieces[best];
    out->fill = fill[best];
    pack(k, out->fill, k->problem->n_nodes);
    return copy(k, out, err);
}

int mo_place(const struct mo_place_problem *p, struct mo_place_answer *out, moire_error *err) {
    const size_t nodes = (size_t)p->n_nodes, models = (size_t)p->n_models;
    *out = (struct mo_place_answer){.region = mo_region_create(p->env)};
    struct mo_region *r = out->region;
    int *order = r ? mo_region_array(r, models, sizeof *order) : NULL;
    int *rank = r ? mo_region_array(r, nodes, sizeof *rank) : NULL;
    out->list = r ? mo_region_array(r, models, sizeof *out->list) : NULL;
    out->full = r ? mo_region_array(r, nodes, sizeof *out->full) : NULL;
    struct packing k = {.problem = p, .full = out->full, .order = order, .rank = rank};
    k.memory_mb = r ? mo_region_array(r, nodes, sizeof *k.memory_mb) : NULL;
    k.left = r ? mo_region_array(r, models, sizeof *k.left) : NULL;
    k.given = r ? mo_region_array(r, models * nodes, sizeof *k.given) : NULL;
    int code =
        order && rank && out->list && k.full && k.memory_mb && k.left && k.given && !rank_nodes(p, rank)
            ? MOIRE_OK
            : mo_fail(err, MOIRE_ENOMEM, "out of memory for a placement on %d machines", p->n_nodes);
    if (!code) {
        sort_models(p, order);
        code = solve(&k, out, err);
    }
    if (code) mo_place_free(out);
    return code;
}

void mo_place_free(struct mo_place_answer *answer) {
    mo_region_destroy(answer->region);
    memset(answer, 0, sizeof *answer);
}
