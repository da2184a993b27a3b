/* SPDX-License-Identifier: Apache-2.0
 * beside.c - policies with and without the choice of versions, beside a neighbour; see beside.h. */
#include "bench/choice/beside.h"

#include <string.h>
#include "bench/choice/serve_neighbour.h"

/* Asleep, every level, and changing. */
enum { MAX_CONDITIONS = MO_STRESS_LEVELS + 1 };

static const struct {
    const char *policy, *without;
} rows[] = {{"moire", "moire-no-versions"}, {"veltair", "veltair-as"}};

const char *mo_bench_without_choice(const char *policy) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(policy, rows[i].policy)) return rows[i].without;
    return NULL;
}

/* --- what was chosen ---------------------------------------------------------------------------------- */
static void add_versions(const json_t *layers, int64_t sum[MO_STORE_VERSIONS]) {
    for (size_t v = 0; v < MO_STORE_VERSIONS; v++)
        sum[v] += json_integer_value(json_array_get(layers, v));
}

void mo_beside_add(struct mo_beside_choices *sum, const json_t *choices) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(choices, "tenants"), i, row) {
        add_versions(json_object_get(row, "ran"), sum->ran);
        sum->again += json_integer_value(json_object_get(row, "again"));
        sum->changed += json_integer_value(json_object_get(row, "changed"));
    }
    json_array_foreach(json_object_get(choices, "bins"), i, row) {
        if (i >= MO_CHOICE_BINS) break;
        add_versions(json_object_get(row, "layers"), sum->bin[i]);
        sum->bin_blocks[i] += json_integer_value(json_object_get(row, "blocks"));
    }
    json_array_foreach(json_object_get(choices, "blocks"), i, row) {
        sum->pressure += json_number_value(json_array_get(row, 5));
        sum->blocks++;
    }
}

static json_t *versions_json(const int64_t ran[MO_STORE_VERSIONS]) {
    json_t *list = json_array();
    for (int v = 0; v < MO_STORE_VERSIONS; v++)
        json_array_append_new(list, json_integer(ran[v]));
    return list;
}

json_t *mo_beside_json(const struct mo_beside_choices *c) {
    json_t *bins = json_array();
    for (int k = 0; k < MO_CHOICE_BINS; k++)
        json_array_append_new(bins,
                              json_pack("{s:f, s:f, s:I, s:o}", "from", (double)k / MO_CHOICE_BINS, "to",
                                        (k + 1.0) / MO_CHOICE_BINS, "blocks", (json_int_t)c->bin_blocks[k],
                                        "layers", versions_json(c->bin[k])));
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:o, s:o}", "layers", versions_json(c->ran), "again", (json_int_t)c->again,
        "changed", (json_int_t)c->changed, "blocks", (json_int_t)c->blocks, "pressure",
        mo_json_known(c->blocks > 0, c->pressure / (double)(c->blocks ? c->blocks : 1)), "bins", bins);
}

/* --- conditions --------------------------------------------------------------------------------------- */
struct condition {
    int level;
    bool changing;
    struct mo_versus_turn *turn[2]; /* [pairs] of the choosing policy, and of the other */
    struct mo_beside_choices choices;
};

struct beside {
    const struct mo_bench_serve_options *options; /* of a turn */
    const struct mo_bench_mix *mix;
    struct mo_bench_neighbour *neighbour;
    double load;
    int level[MO_STRESS_LEVELS], n_levels; /* asleep first, then those asked for, each once */
    struct condition condition[MAX_CONDITIONS];
    int n;
    struct mo_versus_side side[2];
};

static void list_conditions(struct beside *b, const struct mo_bench_serve_options *o) {
    b->level[b->n_levels++] = 0;
    for (int level = 1; level < MO_STRESS_LEVELS; level++)
        for (int i = 0; i < o->n_neighbour; i++)
            if (o->neighbour[i] == level) {
                b->level[b->n_levels++] = level;
                break;
            }
    for (int i = 0; i < b->n_levels; i++)
        b->condition[b->n++].level = b->level[i];
    if (b->n_levels > 1) b->condition[b->n++].changing = true;
}

static int enter(struct beside *b, const struct condition *c, moire_error *err) {
    if (c->changing) return mo_bench_neighbour_change(b->neighbour, b->level, b->n_levels, err);
    mo_bench_neighbour_keep(b->neighbour, c->level);
    return MOIRE_OK;
}

/* One pair under one condition; who goes first changes from pair to pair. */
static int take_pair(struct beside *b, struct condition *c, int k, moire_error *err) {
    int code = enter(b, c, err);
    for (int turn = 0; !code && turn < 2; turn++) {
        const int who = (turn + k) % 2;
        json_t *choices = NULL;
        code = mo_versus_take(b->mix, b->options, b->load, b->options->seeds[0] + (uint64_t)k, &b->side[who],
                              &c->turn[who][k], &choices, err);
        if (who == 0) mo_beside_add(&c->choices, choices);
        json_decref(choices);
    }
    mo_bench_neighbour_keep(b->neighbour, 0);
    return code;
}

static json_t *condition_json(const struct condition *c, int pairs) {
    json_t *out = mo_versus_json(c->turn[0], c->turn[1], pairs);
    json_object_set_new(out, "level", json_integer(c->level));
    json_object_set_new(out, "changing", json_boolean(c->changing));
    json_object_set_new(out, "choices", mo_beside_json(&c->choices));
    return out;
}

/* --- a policy ----------------------------------------------------------------------------------------- */
static int play(struct beside *b, struct mo_bench_session *s, const char *policy, const char *without,
                moire_error *err) {
    int code = mo_versus_begin(s, b->mix, policy, true, &b->side[0], err);
    if (!code) code = mo_versus_begin(s, b->mix, without, true, &b->side[1], err);
    for (int k = 0; !code && k < b->options->pairs; k++) {
        mo_bench_say(s, "bench: %s and %s beside a neighbour, pair %d of %d", policy, without, k + 1,
                     b->options->pairs);
        for (int c = 0; !code && c < b->n; c++)
            code = take_pair(b, &b->condition[c], k, err);
    }
    for (int i = 0; i < 2; i++)
        mo_versus_end(&b->side[i]);
    return code;
}

static json_t *policy_json(const struct beside *b, const char *policy, const char *without) {
    json_t *conditions = json_array();
    for (int c = 0; c < b->n; c++)
        json_array_append_new(conditions, condition_json(&b->condition[c], b->options->pairs));
    return json_pack("{s:s, s:s, s:f, s:f, s:o}", "policy", policy, "against", without, "load", b->load,
                     "seconds", b->options->seconds, "conditions", conditions);
}

/* The conditions without what was measured under them; turns: room for all of it. */
static void reset(struct beside *b, struct mo_versus_turn *turns) {
    const size_t pairs = (size_t)b->options->pairs;
    for (int c = 0; c < b->n; c++) {
        b->condition[c].choices = (struct mo_beside_choices){.blocks = 0};
        for (size_t who = 0; who < 2; who++)
            b->condition[c].turn[who] = turns + (2 * (size_t)c + who) * pairs;
    }
}

static int play_all(struct beside *b, struct mo_bench_session *s, json_t *compared, moire_error *err) {
    const struct mo_bench_serve_options *o = b->options;
    struct mo_versus_turn *turns =
        mo_alloc(s->env, 2 * (size_t)MAX_CONDITIONS * (size_t)o->pairs * sizeof *turns);
    int code = turns ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; !code && i < o->n_policies; i++) {
        const char *without = mo_bench_without_choice(o->policies[i]);
        if (!without) continue;
        reset(b, turns);
        code = play(b, s, o->policies[i], without, err);
        if (!code) json_array_append_new(compared, policy_json(b, o->policies[i], without));
    }
    mo_free(s->env, turns);
    return code;
}

int mo_bench_beside(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                    const struct mo_bench_mix *mix, json_t **out, moire_error *err) {
    const struct mo_bench_serve_options brief = mo_versus_brief(options);
    struct beside *b = mo_alloc(session->env, sizeof *b);
    if (!b) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    *b = (struct beside){.options = &brief, .mix = mix, .load = mo_versus_load(options)};
    list_conditions(b, options);
    json_t *compared = json_array();
    int code = mo_bench_neighbour_open(session->env, mix->cores, &b->neighbour, err);
    if (!code) code = play_all(b, session, compared, err);
    *out = code ? NULL : mo_bench_neighbour_about(b->neighbour, b->level, b->n_levels);
    if (!code && !*out) code = mo_fail(err, MOIRE_EIO, "the neighbour cannot be measured");
    if (!code)
        json_object_set_new(*out, "compared", compared);
    else
        json_decref(compared);
    mo_bench_neighbour_close(b->neighbour);
    mo_free(session->env, b);
    return code;
}
