/* SPDX-License-Identifier: Apache-2.0
 * choices.c - decisions of a run from its events, and as JSON; see choices.h. */
#include "bench/choice/choices.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 3000 };

const char *mo_cut_name(enum mo_cut cut) {
    static const char *const names[MO_CUTS] = {"untold", "model",    "bound", "meet",
                                               "pivot",  "conflict", "size"};
    return names[cut >= 0 && cut < MO_CUTS ? cut : MO_CUT_UNTOLD];
}

int mo_choices_bin(double pressure) {
    int bin = (int)(pressure * MO_CHOICE_BINS);
    return bin < 0 ? 0 : bin < MO_CHOICE_BINS ? bin : MO_CHOICE_BINS - 1;
}

/* --- gathering ---------------------------------------------------------------------------------------- */
static int by_query(const void *pa, const void *pb) {
    const struct mo_choice_block *a = pa, *b = pb;
    if (a->query != b->query) return a->query < b->query ? -1 : 1;
    return a->begin - b->begin;
}

/* The block of a query that a layer lies in; NULL = none that was gathered. */
static struct mo_choice_block *block_of(const struct mo_choices *c, uint64_t query, int64_t layer) {
    int lo = 0, hi = c->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        const struct mo_choice_block *b = &c->block[mid];
        if (b->query < query || (b->query == query && b->end <= layer))
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == c->n || c->block[lo].query != query || c->block[lo].begin > layer) return NULL;
    return &c->block[lo];
}

/* Decisions of one ring: a BASIS speaks of the DISPATCH before it. */
static void add_blocks(const struct mo_ring *ring, int64_t from, const struct mo_choice_model *models,
                       int n_models, struct mo_choices *out) {
    const struct mo_event_entry *dispatch = NULL;
    for (uint64_t i = mo_ring_first(ring); i < ring->n; i++) {
        const struct mo_event_entry *e = mo_ring_at(ring, i);
        if (e->kind == MO_LOG_DISPATCH) dispatch = e;
        if (e->kind != MO_LOG_BASIS || !dispatch || dispatch->query != e->query || e->time < from) continue;
        if (e->tenant < 0 || e->tenant >= n_models || dispatch->a < 0 || dispatch->a >= dispatch->b ||
            dispatch->b > models[e->tenant].n_layers)
            continue;
        out->block[out->n++] = (struct mo_choice_block){.query = e->query,
                                                        .time = e->time,
                                                        .predicted_ns = e->c,
                                                        .tenant = e->tenant,
                                                        .begin = (int)dispatch->a,
                                                        .end = (int)dispatch->b,
                                                        .cores = (int)dispatch->c,
                                                        .pressure = (double)e->a / MO_EVENT_UNIT,
                                                        .cut = (enum mo_cut)e->b};
    }
}

/* Every layer with a choice runs its first version until told otherwise. */
static void count_choices(const struct mo_choices *c, const struct mo_choice_model *models) {
    for (int i = 0; i < c->n; i++)
        for (int k = c->block[i].begin; k < c->block[i].end; k++)
            c->block[i].ran[0] += models[c->block[i].tenant].versions[k] > 1;
}

/* Room for the version of every layer of every block; zeros. */
static bool make_room(struct mo_choices *c) {
    size_t layers = 1, at = 0;
    for (int i = 0; i < c->n; i++)
        layers += (size_t)(c->block[i].end - c->block[i].begin);
    c->versions = mo_alloc(c->env, layers);
    for (int i = 0; c->versions && i < c->n; i++) {
        c->block[i].version = c->versions + at;
        at += (size_t)(c->block[i].end - c->block[i].begin);
    }
    return c->versions != NULL;
}

static void add_versions(const struct mo_ring *ring, const struct mo_choice_model *models,
                         const struct mo_choices *c) {
    for (uint64_t i = mo_ring_first(ring); i < ring->n; i++) {
        const struct mo_event_entry *e = mo_ring_at(ring, i);
        struct mo_choice_block *b = e->kind == MO_LOG_VERSIONS ? block_of(c, e->query, e->a) : NULL;
        int64_t digits = b ? e->b : 0;
        for (int64_t k = e->a; digits && k < b->end; k++, digits >>= 3) {
            int version = (int)(digits & 7);
            if (!version || version >= MO_STORE_VERSIONS || models[b->tenant].versions[k] < 2) continue;
            b->ran[0]--;
            b->ran[version]++;
            b->version[k - b->begin] = (unsigned char)version;
        }
    }
}

static int by_time(const void *pa, const void *pb) {
    const struct mo_choice_block *a = *(struct mo_choice_block *const *)pa,
                                 *b = *(struct mo_choice_block *const *)pb;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return (a > b) - (a < b);
}

/* Compares a block's versions with `last`, one more than the version that its model's layers ran in last, 0 =
 * they have not run. */
static void compare(struct mo_choice_block *b, const struct mo_choice_model *m, unsigned char *last) {
    for (int k = b->begin; k < b->end; k++) {
        if (m->versions[k] < 2) continue;
        const unsigned char now = (unsigned char)(b->version[k - b->begin] + 1);
        b->again += last[k] != 0;
        b->changed += last[k] && last[k] != now;
        last[k] = now;
    }
}

/* Walks through the blocks of each model in order of time. */
static bool count_changes(struct mo_choices *c, const struct mo_choice_model *models, int n_models) {
    size_t most = 1;
    for (int m = 0; m < n_models; m++)
        if ((size_t)models[m].n_layers > most) most = (size_t)models[m].n_layers;
    struct mo_choice_block **order = mo_alloc(c->env, ((size_t)c->n + 1) * sizeof *order);
    unsigned char *last = mo_alloc(c->env, most);
    for (int i = 0; order && i < c->n; i++)
        order[i] = &c->block[i];
    if (order) qsort((void *)order, (size_t)c->n, sizeof *order, by_time);
    for (int m = 0; order && last && m < n_models; m++) {
        memset(last, 0, most);
        for (int i = 0; i < c->n; i++)
            if (order[i]->tenant == m) compare(order[i], &models[m], last);
    }
    bool good = order && last;
    mo_free(c->env, (void *)order);
    mo_free(c->env, last);
    return good;
}

int mo_choices_gather(const struct mo_env *env, const struct mo_events *events, int64_t from,
                      const struct mo_choice_model *models, int n_models, struct mo_choices *out) {
    size_t most = 1;
    for (int r = 0; r < events->n_rings; r++) {
        const struct mo_ring *ring = &events->ring[r];
        for (uint64_t i = mo_ring_first(ring); i < ring->n; i++)
            most += mo_ring_at(ring, i)->kind == MO_LOG_BASIS;
    }
    *out = (struct mo_choices){.env = env, .block = mo_alloc(env, most * sizeof *out->block)};
    if (!out->block) return MOIRE_ENOMEM;
    for (int r = 0; r < events->n_rings; r++)
        add_blocks(&events->ring[r], from, models, n_models, out);
    qsort(out->block, (size_t)out->n, sizeof *out->block, by_query);
    count_choices(out, models);
    bool good = make_room(out);
    for (int r = 0; good && r < events->n_rings; r++)
        add_versions(&events->ring[r], models, out);
    if (good && count_changes(out, models, n_models)) return MOIRE_OK;
    mo_choices_free(out);
    return MOIRE_ENOMEM;
}

void mo_choices_free(struct mo_choices *choices) {
    if (choices->env) {
        mo_free(choices->env, choices->block);
        mo_free(choices->env, choices->versions);
    }
    *choices = (struct mo_choices){0};
}

/* --- JSON --------------------------------------------------------------------------------------------- */
static bool has_choice(const struct mo_choice_block *b) {
    for (int v = 0; v < MO_STORE_VERSIONS; v++)
        if (b->ran[v]) return true;
    return false;
}

static json_t *counts(const int64_t *value, int n, double scale) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list,
                              scale == 1 ? json_integer(value[i]) : json_real((double)value[i] * scale));
    return list;
}

static json_t *versions_json(const int ran[MO_STORE_VERSIONS]) {
    int64_t wide[MO_STORE_VERSIONS];
    for (int v = 0; v < MO_STORE_VERSIONS; v++)
        wide[v] = ran[v];
    return counts(wide, MO_STORE_VERSIONS, 1);
}

static json_t *bins_json(const struct mo_choices *c) {
    int64_t layers[MO_CHOICE_BINS][MO_STORE_VERSIONS] = {{0}}, blocks[MO_CHOICE_BINS] = {0};
    for (int i = 0; i < c->n; i++) {
        const struct mo_choice_block *b = &c->block[i];
        int bin = mo_choices_bin(b->pressure);
        blocks[bin] += has_choice(b);
        for (int v = 0; v < MO_STORE_VERSIONS; v++)
            layers[bin][v] += b->ran[v];
    }
    json_t *list = json_array();
    for (int k = 0; k < MO_CHOICE_BINS; k++)
        json_array_append_new(list,
                              json_pack("{s:f, s:f, s:I, s:o}", "from", (double)k / MO_CHOICE_BINS, "to",
                                        (k + 1.0) / MO_CHOICE_BINS, "blocks", (json_int_t)blocks[k], "layers",
                                        counts(layers[k], MO_STORE_VERSIONS, 1)));
    return list;
}

static json_t *blocks_json(const struct mo_choices *c, int64_t from) {
    int n = 0, at = 0;
    for (int i = 0; i < c->n; i++)
        n += has_choice(&c->block[i]);
    json_t *list = json_array();
    for (int i = 0; i < c->n; i++) {
        const struct mo_choice_block *b = &c->block[i];
        if (!has_choice(b)) continue;
        int k = at++;
        if (n > MAX_BLOCKS && (int64_t)k * MAX_BLOCKS / n == (int64_t)(k + 1) * MAX_BLOCKS / n) continue;
        json_array_append_new(list, json_pack("[f,i,i,i,i,f,s,o]", (double)(b->time - from) * 1e-6, b->tenant,
                                              b->cores, b->begin, b->end, b->pressure, mo_cut_name(b->cut),
                                              versions_json(b->ran)));
    }
    return list;
}

static json_t *cuts_json(const struct mo_choices *c, int tenant) {
    int64_t cuts[MO_CUTS] = {0};
    for (int i = 0; i < c->n; i++)
        if (c->block[i].tenant == tenant && c->block[i].cut >= 0 && c->block[i].cut < MO_CUTS)
            cuts[c->block[i].cut]++;
    json_t *out = json_object();
    for (int k = 0; k < MO_CUTS; k++)
        if (cuts[k]) json_object_set_new(out, mo_cut_name((enum mo_cut)k), json_integer(cuts[k]));
    return out;
}

/* How many blocks began at each layer. */
static json_t *begins_json(const struct mo_choices *c, int tenant, int n_layers, int64_t *blocks) {
    int64_t *begins = mo_alloc(c->env, ((size_t)n_layers + 1) * sizeof *begins);
    *blocks = 0;
    for (int i = 0; begins && i < c->n; i++)
        if (c->block[i].tenant == tenant) {
            begins[c->block[i].begin]++;
            ++*blocks;
        }
    json_t *list = begins ? counts(begins, n_layers, 1) : NULL;
    mo_free(c->env, begins);
    return list;
}

/* What a tenant's layers ran in, and how often that changed. */
static void add_ran(const struct mo_choices *c, int tenant, json_t *out) {
    int64_t ran[MO_STORE_VERSIONS] = {0}, again = 0, changed = 0;
    for (int i = 0; i < c->n; i++) {
        const struct mo_choice_block *b = &c->block[i];
        if (b->tenant != tenant) continue;
        for (int v = 0; v < MO_STORE_VERSIONS; v++)
            ran[v] += b->ran[v];
        again += b->again;
        changed += b->changed;
    }
    json_object_set_new(out, "ran", counts(ran, MO_STORE_VERSIONS, 1));
    json_object_set_new(out, "again", json_integer(again));
    json_object_set_new(out, "changed", json_integer(changed));
}

static json_t *tenant_json(const struct mo_choices *c, const struct mo_choice_model *m, int tenant) {
    int choices = 0;
    int64_t blocks;
    json_t *begins = begins_json(c, tenant, m->n_layers, &blocks), *labels = json_array();
    for (int k = 0; k < m->n_layers; k++) {
        choices += m->versions[k] > 1;
        json_array_append_new(labels, json_string(m->label ? m->label[k] : ""));
    }
    json_t *out =
        json_pack("{s:s, s:i, s:i, s:I, s:o, s:o, s:o, s:o, s:o}", "name", m->name, "layers", m->n_layers,
                  "choices", choices, "blocks", (json_int_t)blocks, "cuts", cuts_json(c, tenant), "begins",
                  begins, "one_core_us", counts(m->one_core_ns, m->n_layers, 1e-3), "all_cores_us",
                  counts(m->all_cores_ns, m->n_layers, 1e-3), "labels", labels);
    if (out) add_ran(c, tenant, out);
    return out;
}

json_t *mo_choices_json(const struct mo_choices *choices, const struct mo_choice_model *models, int n_models,
                        int64_t from, int64_t to, int64_t block_ns) {
    json_t *tenants = json_array();
    for (int i = 0; i < n_models; i++)
        json_array_append_new(tenants, tenant_json(choices, &models[i], i));
    return json_pack("{s:f, s:f, s:o, s:o, s:o}", "seconds", (double)(to - from) * 1e-9, "bound_ms",
                     (double)block_ns * 1e-6, "bins", bins_json(choices), "blocks",
                     blocks_json(choices, from), "tenants", tenants);
}
