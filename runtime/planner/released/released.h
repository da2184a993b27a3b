/* SPDX-License-Identifier: Apache-2.0
 * released.h - the scheduler that gpu-let's authors released, as their program works and not as the paper
 * prints it (casys-kaist/glet, scheduler-only build), for comparisons with our planners.  Internal to
 * runtime/planner.
 *
 * Models come by rising rate x target.  One is cut into saturated lets of the size whose next step gains most
 * (never a whole GPU) and a residual one; if these find no room, it takes what is free from the largest let
 * on, and at last turns on lets that have time left.  A GPU has one cut at most.  What is easy to overlook,
 * and decides much:
 *
 * - A batch is at most 31: the binary search for it never tries its upper end.
 * - Interference is the worst pair's, by use of the whole GPU x size of the let, at the batches planned so
 * far.
 * - A rate of at most `ignored` is left alone, a residual let may miss its target by `late`, and after all a
 * model that got `enough` of its rate is served.  One that did not is taken off and placed once more.
 * - On a let with turns the duty cycle is cut to whole milliseconds, and batches are rounded down.
 *
 * So a plan says that it serves what the rules call served, which need not hold by model.h: check.h finds
 * out. */
#ifndef MO_PLANNER_RELEASED_H
#define MO_PLANNER_RELEASED_H
#include "runtime/planner/planner.h"

/* What the program has as constants and configuration. */
struct mo_released_rules {
    bool interference, parts, cuts; /* looks at neighbours; lets smaller than a GPU; cuts GPUs itself */
    double enough, late, ignored;   /* see above: part of a rate, part of a target, queries/s */
    double latency;                 /* margin: times are so many times the measured ones */
    int64_t context_bytes;          /* of a let's process */
    double memory;                  /* part of a GPU's memory that is used */
    double link_bits;               /* a second, of a GPU's inputs; 0 = not looked at */
};
/* Those of the program with Interference and Part on, less its margin on latency. */
extern const struct mo_released_rules mo_released_neutral;

/* Plans by other rules than the planners of the table do. */
int mo_released_plan(const struct mo_plan_view *view, const struct mo_released_rules *rules,
                     struct mo_plan_scratch *scratch, struct mo_lets_plan *out, moire_error *err);

enum { MO_RELEASED_BATCH = 32, MO_RELEASED_CUTS = 2 };

struct mo_released_piece {
    int tenant, batch;
    double rate, served; /* when it was placed; queries/s */
};

struct mo_released_node {
    int gpu, units, twin, n; /* twin: the second of two halves */
    double duty, busy;       /* ms; part of the time, 1 = saturated by one model */
    struct mo_released_piece pieces[MO_LET_TENANTS];
};

struct mo_released_gpu {
    int n;
    int64_t used;                      /* memory */
    bool loaded[MO_PLAN_UNITS + 1][2]; /* [units][twin]: that let's process is there */
    struct mo_released_node nodes[MO_RELEASED_CUTS];
};

/* A model on its way: what is left of its rate, and what neighbours lost for it. */
struct mo_released_task {
    int tenant;
    double rate, lost, target; /* target: ms */
    bool again;                /* was placed once more already */
};

struct mo_released {
    const struct mo_plan_view *view;
    const struct mo_plan_kind *kind;
    struct mo_released_rules rules;
    int n_sizes, sizes[MO_PLAN_SIZES]; /* in units, falling: those whose rest is a size too */
    int n_tasks;
    struct mo_released_task tasks[MO_PLAN_TENANTS];
    struct mo_released_gpu gpus[MO_PLAN_GPUS];
};

/* ---- released_state.c ---- */
/* ms of a batch on a let, beside those on the others of its GPU; and on a size of let alone. */
double mo_released_time(const struct mo_released *r, const struct mo_released_node *node, int tenant,
                        int batch);
double mo_released_alone(const struct mo_released *r, int tenant, int batch, int units);
/* Largest batch with which a model saturates the node, or (residual) serves *rate; 0: none.  A residual rate
 * so small that a batch of one comes too seldom is raised. */
int mo_released_batch(const struct mo_released *r, const struct mo_released_task *task,
                      const struct mo_released_node *node, double *rate, bool residual, bool neighbours);
bool mo_released_memory(const struct mo_released *r, const struct mo_released_node *node, int tenant);
void mo_released_load(struct mo_released *r, const struct mo_released_node *node, int tenant);
void mo_released_unload(struct mo_released *r, const struct mo_released_node *node, int tenant);
bool mo_released_link(const struct mo_released *r, int gpu);
/* Cuts a piece's batch to what is left of the link; false: nothing is. */
bool mo_released_link_cut(const struct mo_released *r, int gpu, struct mo_released_piece *piece);
/* After a neighbour came: smaller batches until the targets are met; false: there are none.  What a saturated
 * let loses is added to *lost. */
bool mo_released_adjust(const struct mo_released *r, struct mo_released_node *node, double *lost);
/* Cuts a whole GPU; the rest of it is a new node, NULL where there is none. */
struct mo_released_node *mo_released_cut(struct mo_released *r, struct mo_released_node *node, int units);

/* ---- released_fit.c ---- */
/* The lets that a model would have if there were room; their number, -1: there are none. */
int mo_released_estimate(const struct mo_released *r, const struct mo_released_task *task, double rate,
                         struct mo_released_node *out, int room);
/* What a model serves alone on that size, and with which batch. */
double mo_released_saturated(const struct mo_released *r, const struct mo_released_task *task, int units,
                             int *batch);
/* Places the whole model by best fit. */
bool mo_released_fit(struct mo_released *r, struct mo_released_task *task);

/* ---- released_rest.c ---- */
/* Places what is left on the given free nodes, the largest first. */
void mo_released_readjust(struct mo_released *r, struct mo_released_task *task,
                          struct mo_released_node **given, int n);
/* Joins a model's residual lets into one; true: all of the model is placed. */
bool mo_released_merge(struct mo_released *r, struct mo_released_task *task);

/* ---- released_turns.c ---- */
/* Takes turns on lets with time left; `only`: on one of these. */
bool mo_released_turns(struct mo_released *r, struct mo_released_task *task, struct mo_released_node **only,
                       int n_only);

static inline bool mo_released_same(const struct mo_released_node *a, const struct mo_released_node *b) {
    return a->gpu == b->gpu && a->units == b->units && a->twin == b->twin;
}
static inline bool mo_released_left(const struct mo_released *r, const struct mo_released_task *task) {
    return task->rate + task->lost > r->rules.ignored;
}
#endif
