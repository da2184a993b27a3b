/* SPDX-License-Identifier: Apache-2.0
 * beam.h - what the files of the planner `beam` share: what a GPU of a plan in the making holds, states made
 * of such GPUs, and their scores.  Internal to runtime/planner; the search itself is in beam.c. */
#ifndef MO_PLANNER_BEAM_H
#define MO_PLANNER_BEAM_H
#include "runtime/planner/placement.h"

enum {
    MO_BEAM_WIDTH = 8,                    /* most states kept */
    MO_BEAM_CHILDREN = 2 * MO_BEAM_WIDTH, /* most extensions of one round that are looked at closely */
    MO_BEAM_CROSSINGS = 256               /* gaps of the stream of arrivals */
};

/* What a GPU holds.  States share it, and it does not change once one of them has it; so GPUs with the same
 * contents are mostly the same record, and what was found out about it is found out once. */
struct mo_beam_gpu {
    int users; /* slots of states and extensions that refer to it */
    int next;  /* of a free one: the next that is free, -1 */
    int seen;  /* mark of whoever goes through the records of a state */
    bool simulated;
    double room;                   /* what is left of it, in whole GPUs */
    double risk;                   /* queries/s of critical tenants at risk in simulation (beam_score.c) */
    double risk_of[MO_PLAN_UNITS]; /* the same by let */
    struct mo_placement_gpu at;
};

struct mo_beam_state {
    int gpu[MO_PLAN_GPUS]; /* records */
    double left[MO_PLAN_TENANTS];
    double placed, room, risk; /* queries/s placed of critical tenants; sums over GPUs */
    double value;
};

/* A state with one GPU changed. */
struct mo_beam_child {
    int state, slot, record; /* slot -1: the state as it is */
    double placed, room, risk, value;
};

struct mo_beam {
    struct mo_space *space;
    double price[MO_PLAN_TENANTS]; /* least share-seconds a query */
    double gap[MO_BEAM_CROSSINGS]; /* of the arrivals, mean 1 */
    struct mo_beam_gpu *pool;
    int n_used, free; /* records that were ever taken; the first free one of them, -1 */
    int mark;
    struct mo_placement_gpu work;        /* an extension in the making */
    struct mo_beam_state *states, *next; /* [MO_BEAM_WIDTH] each */
    int64_t limit;                       /* of space->steps, for the round */
    int n_states, width, look;           /* GPUs of a state that are tried for a tenant */
    double of_risk;                      /* what a query at risk counts against one that is placed */
    /* what comes after the tenant at hand: its queries/s and the GPUs that it needs at least */
    double rest_rate, rest_need;
    struct mo_beam_child child[MO_BEAM_CHILDREN];
    int n_children;
};

/* What the search takes of the scratch besides the model's tables. */
size_t mo_beam_scratch_bytes(int n_gpus);
/* Searches with that budget (0: its own), and puts what it finds on the placement if it places more critical
 * queries/s than `placed`, which the placement has now; *finished: the budget did not end it.  MOIRE_ENOMEM;
 * the scratch is given back. */
int mo_beam_improve(struct mo_placement *placement, double placed, int64_t budget,
                    struct mo_plan_scratch *scratch, bool *finished);

/* --- beam_score.c --------------------------------------------------------------------------------------- */
/* The stream of arrivals. */
void mo_beam_draw(struct mo_beam *beam);
/* What is left of a GPU, as a part of a whole one: units without a let while another let may be added, and
 * the idle time of lets that may take one more tenant, at a discount. */
double mo_beam_room(const struct mo_beam *beam, const struct mo_placement_gpu *gpu);
/* Simulates the lets of a record, once. */
void mo_beam_simulate(struct mo_beam *beam, struct mo_beam_gpu *record);
/* What a state is worth, in queries/s. */
double mo_beam_value(const struct mo_beam *beam, double placed, double room, double risk);

/* --- beam_extend.c -------------------------------------------------------------------------------------- */
/* A record with the contents, held once; there are as many as states and children can refer to. */
int mo_beam_take(struct mo_beam *beam, const struct mo_placement_gpu *gpu);
void mo_beam_drop(struct mo_beam *beam, int record);
/* Adds all distinct ways to give the tenant a let in one of the states to the children, the best of which
 * stay. */
void mo_beam_extend(struct mo_beam *beam, int state, int tenant);
/* Offers a state as it is. */
void mo_beam_stay(struct mo_beam *beam, int state);
/* A let takes the next size; false: there is none, or too few units. */
bool mo_beam_widen(const struct mo_space *space, struct mo_placement_gpu *gpu, int let);
/* A let that does not fit its pieces takes more units while there are any; false: some does not fit. */
bool mo_beam_settle(struct mo_placement *one, int g);
#endif
