/* SPDX-License-Identifier: Apache-2.0
 * wattwiser.c - WattWiser (Jahanshahi, Rezvani, Wong): which of a model's GPUs serve, and which query goes to
 * which of them, so that the power of a server follows its load.
 *
 * A model is allocated as many GPUs as its declared rate needs, one after the other; where GPUs are shared,
 * the last of one model is the first of the next.  A GPU's sharing factor is the number of models that are
 * allocated to it.  Every second Algorithm 1 compares a model's rate with what its serving GPUs hold, with
 * hysteresis, and Algorithm 2 gives these their weights; GPUs that serve nobody are parked.
 *
 * Models that serve on one GPU run side by side, as streams do: each has a let of an equal part, and one that
 * is there alone has all of it (changing that is what mo_gpus.prepare_ns says).
 *
 * Queries go to GPUs by weighted round robin as they come.  A tenant's queries are equal, so what is kept is
 * how many of them each GPU has to take, and a GPU takes the oldest that wait: counts and batches are those
 * of separate queues, only the order within a tenant is better.  The shares are dealt smoothly (the GPU that
 * is furthest behind its share is next) and not as `weight` queries in a row.
 *
 * Which GPUs serve at low load is not the same in the paper's text and in its Fig. 2.  Here packed-uniform
 * and sharing-aware serve on all that are allocated, as in Fig. 2 (b) and (c) ("regardless of the load");
 * sharing-load-aware follows Algorithm 1. */
#include <math.h>
#include <string.h>
#include "runtime/policy/whole_gpus.h"

enum distribution { UNIFORM, SHARING, SHARING_LOAD };

struct options {
    enum distribution distribution;
    bool shares;  /* models' GPUs overlap */
    bool follows; /* the serving set follows the load; else all allocated GPUs serve */
    bool printed; /* Algorithm 2 to the letter */
};

/* Of what the serving GPUs hold: one more serves above the first, one less for so many seconds below the
 * second of what would be left. */
static const double MORE = 0.95, LESS = 0.85;
enum { LESS_FOR = 2 };
static const int64_t second = 1000000000;

struct model {
    int n, serving;              /* allocated; of these, the first that serve */
    short gpu[MO_PLAN_GPUS];     /* those with the least sharing factor first */
    double weight[MO_PLAN_GPUS]; /* of gpu[i] */
    double behind[MO_PLAN_GPUS]; /* of its share of the queries so far */
    int due[MO_PLAN_GPUS];       /* queries that gpu[i] has to take */
    double rate;                 /* queries/s in the last second */
    int64_t arrivals;
    int low; /* seconds in which one GPU less would have done */
};

struct state {
    bool laid, ask;
    bool known[MO_PLAN_TENANTS]; /* open when GPUs were allocated */
    int64_t counted;
    int factor[MO_PLAN_GPUS];
    struct model model[MO_PLAN_TENANTS];
    struct mo_whole_gpus on; /* who serves where, as asked for last */
    struct mo_lets_plan plan;
};

static bool is_open(const struct mo_view *view, int tenant) {
    return tenant < MO_PLAN_TENANTS && view->tenants[tenant].open;
}

static int n_models(const struct mo_view *view) {
    return view->n_tenants < MO_PLAN_TENANTS ? view->n_tenants : MO_PLAN_TENANTS;
}

/* --- allocation ----------------------------------------------------------------------------------------- */
static int gpus_for(const struct mo_view *view, int tenant) {
    const double one = mo_whole_gpu_rate(view, 0, tenant), declared = view->tenants[tenant].declared;
    const int all = view->gpus->n_gpus, n = one > 0 && declared > 0 ? (int)ceil(declared / one) : 1;
    return n < all ? n : all;
}

/* Rising sharing factor; the order of equals stays. */
static void sort_gpus(const struct state *s, struct model *m) {
    for (int i = 1; i < m->n; i++)
        for (int k = i; k > 0 && s->factor[m->gpu[k - 1]] > s->factor[m->gpu[k]]; k--) {
            const short other = m->gpu[k];
            m->gpu[k] = m->gpu[k - 1];
            m->gpu[k - 1] = other;
        }
}

static void allocate(struct state *s, const struct mo_view *view, const struct options *o) {
    int first = 0;
    memset(s->factor, 0, sizeof s->factor);
    for (int t = 0; t < n_models(view); t++) {
        struct model *m = &s->model[t];
        const int wanted = (s->known[t] = is_open(view, t)) ? gpus_for(view, t) : 0;
        memset(m, 0, sizeof *m);
        for (int i = 0; i < wanted; i++) {
            const int g = (first + i) % view->gpus->n_gpus;
            if (view->gpu_lost[g] || s->factor[g] == MO_LET_TENANTS || !mo_view_share(view, t, g)) continue;
            m->gpu[m->n++] = (short)g;
            s->factor[g]++;
        }
        if (wanted) first += o->shares && wanted > 1 ? wanted - 1 : wanted;
    }
    for (int t = 0; t < n_models(view); t++) {
        sort_gpus(s, &s->model[t]);
        s->model[t].serving = o->follows && s->model[t].n ? 1 : s->model[t].n;
    }
}

/* --- Algorithm 1: the serving set ----------------------------------------------------------------------- */
static double holds(const struct mo_view *view, const struct model *m, int tenant, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += mo_whole_gpu_rate(view, m->gpu[i], tenant);
    return sum;
}

static void adapt(const struct mo_view *view, struct model *m, int tenant) {
    while (m->serving < m->n && m->rate > MORE * holds(view, m, tenant, m->serving)) {
        m->serving++;
        m->low = 0;
    }
    const bool less = m->serving > 1 && m->rate < LESS * holds(view, m, tenant, m->serving - 1);
    m->low = less ? m->low + 1 : 0;
    if (m->low < LESS_FOR) return;
    m->serving--;
    m->low = 0;
}

/* --- Algorithm 2: weights ------------------------------------------------------------------------------- */
static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        const int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static void sharing_weights(const struct state *s, struct model *m) {
    int64_t lcm = 1;
    for (int i = 0; i < m->serving; i++)
        lcm = common_multiple(lcm, s->factor[m->gpu[i]]);
    for (int i = 0; i < m->serving; i++) {
        const int64_t weight = lcm / s->factor[m->gpu[i]];
        m->weight[i] = (double)weight;
    }
}

/* Unshared GPUs get what they hold, the others what is left, each at most its part of what it holds.
 *
 * As printed that is all, and with two GPUs of which one is shared by two, a load of over three quarters of
 * both overloads the unshared one: weights are 2 to 1 then, whatever the load.  So what is still left goes to
 * the shared ones beyond their part: their other models need it less, or the server is overloaded anyway. */
static void sharing_load_weights(const struct state *s, const struct mo_view *view, struct model *m,
                                 int tenant, bool printed) {
    double rest = m->rate;
    int shared = 0;
    for (int i = 0; i < m->serving; i++) {
        const int factor = s->factor[m->gpu[i]];
        const double most = mo_whole_gpu_rate(view, m->gpu[i], tenant) / factor;
        m->weight[i] = factor == 1 ? most : fmax(0, fmin(rest, most));
        rest -= m->weight[i];
        shared += factor > 1;
    }
    for (int i = 0; i < m->serving && rest > 0 && !printed; i++)
        if (s->factor[m->gpu[i]] > 1) m->weight[i] += rest / shared;
    if (m->serving && m->weight[0] <= 0) m->weight[0] = 1; /* no rate is known yet */
}

static void weigh(const struct state *s, const struct mo_view *view, struct model *m, int tenant,
                  const struct options *o) {
    for (int i = 0; i < m->n; i++)
        m->weight[i] = i < m->serving;
    if (o->distribution == SHARING) sharing_weights(s, m);
    if (o->distribution == SHARING_LOAD) sharing_load_weights(s, view, m, tenant, o->printed);
}

/* Asks for the lets of those who serve, if they are others than before. */
static void lay(struct state *s, const struct mo_view *view) {
    const struct mo_whole_gpus old = s->on;
    memset(&s->on, 0, sizeof s->on);
    for (int t = 0; t < n_models(view); t++)
        for (int i = 0; i < s->model[t].serving; i++)
            (void)mo_whole_gpus_add(&s->on, view, s->model[t].gpu[i], t);
    if (s->laid && mo_whole_gpus_same(&old, &s->on, view->gpus->n_gpus)) return;
    mo_whole_gpus_plan(&s->on, view, true, &s->plan);
    s->laid = s->ask = true;
}

/* Each second. */
static void plan(void *state, const struct mo_view *view) {
    struct state *s = state;
    const struct options *o = view->options;
    const double passed = (double)(view->now - s->counted) / (double)second;
    const bool first = !s->counted;
    s->counted = view->now;
    if (first || passed <= 0 || !s->laid) return;
    for (int t = 0; t < n_models(view); t++) {
        struct model *m = &s->model[t];
        m->rate = (double)m->arrivals / passed;
        m->arrivals = 0;
        if (o->follows) adapt(view, m, t);
        weigh(s, view, m, t, o);
    }
    if (!view->lets_coming) lay(s, view);
}

/* --- who serves what ------------------------------------------------------------------------------------ */
/* The one that is furthest behind its share gets a query. */
static void deal_one(struct model *m) {
    double sum = 0;
    int best = 0;
    for (int i = 0; i < m->n; i++)
        sum += m->weight[i];
    for (int i = 0; i < m->n; i++) {
        m->behind[i] += sum > 0 ? m->weight[i] / sum : 0;
        if (m->weight[i] > 0 && (m->weight[best] <= 0 || m->behind[i] > m->behind[best])) best = i;
    }
    m->behind[best] -= 1;
    m->due[best]++;
}

/* What waits is dealt out: new queries to their GPUs, and what went away unanswered is taken back, as is what
 * a GPU has not taken that serves no more. */
static void deal(struct model *m, int waiting) {
    int sum = 0;
    for (int i = 0; i < m->n; i++) {
        if (i >= m->serving) m->due[i] = 0;
        sum += m->due[i];
    }
    for (; m->n && sum < waiting; sum++)
        deal_one(m);
    for (int i = m->n - 1; i >= 0 && sum > waiting; i--) {
        const int back = sum - waiting < m->due[i] ? sum - waiting : m->due[i];
        m->due[i] -= back;
        sum -= back;
    }
}

static int place_of(const struct model *m, int gpu) {
    for (int i = 0; i < m->n; i++)
        if (m->gpu[i] == gpu) return i;
    return -1;
}

/* The entry of a let whose oldest query there is due first, NULL = none. */
static const struct mo_let_entry *next_on(const struct state *s, const struct mo_view *view,
                                          const struct mo_planned_let *let, const int *taken) {
    const struct mo_let_entry *best = NULL;
    int64_t due = 0;
    for (int e = 0; e < let->n_entries; e++) {
        const int t = let->entries[e].tenant, i = place_of(&s->model[t], let->gpu);
        const struct mo_view_tenant *tenant = &view->tenants[t];
        if (i < 0 || !s->model[t].due[i] || taken[t] >= tenant->n_waiting) continue;
        const int64_t deadline = view->queries[tenant->waiting[taken[t]]].deadline;
        if (best && deadline >= due) continue;
        best = &let->entries[e];
        due = deadline;
    }
    return best;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static void serve(struct state *s, const struct mo_view *view, const struct mo_planned_let *let, int *taken,
                  struct mo_decisions *out) {
    const struct mo_let_entry *entry = next_on(s, view, let, taken);
    if (!entry) return;
    const int t = entry->tenant;
    const struct mo_view_tenant *tenant = &view->tenants[t];
    int *due = &s->model[t].due[place_of(&s->model[t], let->gpu)];
    int n = least(least(*due, entry->batch), view->max_batch);
    n = least(n, least(tenant->n_waiting, tenant->free_instances) - taken[t]);
    if (n < 1) return;
    mo_decide_batch(out, tenant->waiting[taken[t]], n, tenant->profile->n_layers,
                    mo_gpus_let(view->gpus, let));
    *due -= n;
    taken[t] += n;
}

static bool runs(const struct mo_view *view, int gpu) {
    for (int i = 0; i < view->n_running; i++)
        if (view->gpus->gpu_of[view->running[i]] == gpu) return true;
    return false;
}

/* GPUs that serve nobody and have nothing to do. */
static void park(const struct state *s, const struct mo_view *view, struct mo_decisions *out) {
    bool parked[MO_PLAN_GPUS];
    for (int g = 0; g < view->gpus->n_gpus; g++)
        parked[g] = !s->on.n[g] && !runs(view, g);
    mo_whole_gpus_park(view, parked, out);
}

static bool is_idle(const struct mo_view *view, const struct mo_planned_let *let) {
    const struct mo_cores units = mo_gpus_let(view->gpus, let);
    return !view->gpu_down[let->gpu] && mo_cores_subset(&units, &view->idle);
}

static void note(struct state *s, const struct mo_view *view, const struct mo_event *event) {
    const int t = event->tenant;
    if (event->kind == MO_EVENT_ARRIVAL && t < MO_PLAN_TENANTS) s->model[t].arrivals++;
    bool anew = !s->laid || event->kind == MO_EVENT_GPUS;
    for (int i = 0; i < n_models(view); i++) /* tenants that came or went */
        anew |= is_open(view, i) != s->known[i];
    if (!anew || view->lets_coming) return;
    allocate(s, view, view->options);
    for (int i = 0; i < n_models(view); i++)
        weigh(s, view, &s->model[i], i, view->options);
    s->laid = false;
    lay(s, view);
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct state *s = state;
    int taken[MO_PLAN_TENANTS] = {0};
    note(s, view, event);
    if (s->ask && !view->lets_coming) {
        mo_decide_lets(out, &s->plan);
        s->ask = false;
    }
    for (int t = 0; t < n_models(view); t++)
        deal(&s->model[t], view->tenants[t].n_waiting);
    if (view->lets) park(s, view, out);
    for (int i = 0; view->lets && i < view->lets->n_lets; i++)
        if (is_idle(view, &view->lets->lets[i])) serve(s, view, &view->lets->lets[i], taken, out);
    mo_decide_timer(out, view->now + second);
}

static const struct options options[] = {{UNIFORM, false, false, false},
                                         {UNIFORM, true, false, false},
                                         {SHARING, true, false, false},
                                         {SHARING_LOAD, true, true, false},
                                         {SHARING_LOAD, true, true, true}};

#define ROW(label, text, which, study)                                                                       \
    {                                                                                                        \
        .name = "wattwiser-" label, .description = (text), .gpus = true, .research = (study),                \
        .options = &options[which], .state_bytes = sizeof(struct state), .plan = plan,                       \
        .plan_period_ns = 1000000000, .dispatch = dispatch                                                   \
    }
static const struct mo_policy policies[] = {
    ROW("uniform", "every model has its own GPUs, queries go to them in turn (Triton)", 0, false),
    ROW("packed-uniform", "models' GPUs overlap, queries go to them in turn (GPU-NEST)", 1, false),
    ROW("sharing-aware", "shared GPUs get fewer queries, by how many models share them", 2, false),
    ROW("sharing-load-aware", "unshared GPUs first, the rest to shared ones, others are parked", 3, false),
    ROW("printed", "sharing-load-aware by the paper's Algorithm 2 to the letter", 4, true),
};

extern const struct mo_policy mo_policy_moire_energy, mo_policy_moire_energy_full_speed;

const struct mo_policy *const *mo_policy_wattwisers(void) {
    static const struct mo_policy *const rows[] = {&policies[0],
                                                   &policies[1],
                                                   &policies[2],
                                                   &policies[3],
                                                   &policies[4],
                                                   &mo_policy_moire_energy,
                                                   &mo_policy_moire_energy_full_speed,
                                                   NULL};
    return rows;
}
