/* SPDX-License-Identifier: Apache-2.0
 * profile_versions.c - the rules of profile_versions.h.
 *
 * Times of a version at core counts that were not measured come from a profile of its own (profile.h), built
 * for a moment: one a version, and one a version and level where the table has times under pressure. */
#include "runtime/profile/profile_versions.h"

#include <string.h>

static const double MARGIN = 0.98;

struct builder {
    const struct mo_profile_machine *machine;
    const struct mo_profile_table *table;
    struct mo_profile *out;
    int n_variants;
    const struct mo_profile_line **line; /* [variant][level][layer], NULL = not there */
    struct mo_profile *time[MO_PROFILE_VERSIONS][MO_PROFILE_LEVELS]; /* NULL: not measured */
};

double mo_profile_reread(const struct mo_profile_machine *m, const struct mo_profile_line *l, int cores,
                         bool shared) {
    double own = l->kib * 1024, traffic = l->l3_kib * 1024, block = l->block_kib * 1024;
    if (l->units > 0 && cores > l->units) traffic *= cores / l->units;
    if (m->private_bytes > 0 && block > m->private_bytes) traffic *= block / m->private_bytes;
    if (traffic <= own || m->slice_bytes <= 0 || m->slice_cores < 1) return 0;
    int slices = (m->cores + m->slice_cores - 1) / m->slice_cores;
    int touched = (cores + m->slice_cores - 1) / m->slice_cores;
    double part = shared ? (double)slices * cores / m->cores : touched;
    part *= m->slice_bytes;
    return own > part ? (traffic - own) * (1 - part / own) : 0;
}

static const struct mo_profile_line *line_of(const struct builder *b, int variant, int level, int layer) {
    return b->line[(variant * MO_PROFILE_LEVELS + level) * b->table->n_layers + layer];
}

/* Lines at pressures that are no level serve nobody. */
static void index_lines(struct builder *b) {
    for (int i = 0; i < b->table->n_lines; i++) {
        const struct mo_profile_line *l = &b->table->lines[i];
        double at = l->pressure * (MO_PROFILE_LEVELS - 1);
        int level = (int)(at + 0.5);
        if (l->batch != 1 || at - level > 1e-3 || level - at > 1e-3) continue;
        b->line[(l->variant * MO_PROFILE_LEVELS + level) * b->table->n_layers + l->layer] = l;
    }
}

/* Times of a version by cores at one level; layers without it stand in with their first. */
static struct mo_profile *measured(const struct builder *b, int variant, int level, bool *whole) {
    const struct mo_profile_table *t = b->table;
    struct mo_profile *p = mo_profile_create(b->out->env, t->n_layers, b->out->max_cores);
    int64_t *ns = mo_alloc(b->out->env, (size_t)t->n_layers * sizeof *ns);
    bool ok = p && ns;
    *whole = true;
    for (int c = 0; ok && c < t->n_counts && (t->counts[c] <= p->max_cores || c == 0); c++) {
        int cores = t->counts[c] <= p->max_cores ? t->counts[c] : p->max_cores;
        for (int l = 0; l < t->n_layers; l++) {
            const struct mo_profile_line *line = line_of(b, variant, level, l);
            if (!line) line = line_of(b, 0, level, l);
            if (!line) *whole = false;
            ns[l] = line ? (int64_t)(line->us[c] * 1e3 * t->counts[c] / cores + 0.5) : 1;
        }
        mo_profile_record(p, cores, ns);
    }
    if (ok) mo_profile_interpolate(p);
    mo_free(b->out->env, ns);
    if (ok && *whole) return p;
    mo_profile_destroy(p);
    *whole = !ok; /* false: the table lacks that level; true: no memory */
    return NULL;
}

static int read_times(struct builder *b, moire_error *err) {
    for (int v = 0; v < b->n_variants; v++)
        for (int level = 0; level < MO_PROFILE_LEVELS; level++) {
            bool no_memory;
            b->time[v][level] = measured(b, v, level, &no_memory);
            if (!b->time[v][level] && no_memory)
                return mo_fail(err, MOIRE_ENOMEM, "out of memory for the versions of '%s'", b->table->model);
        }
    return MOIRE_OK;
}

/* Time of a version of a layer on so many cores at a level of pressure. */
static int64_t time_at(const struct builder *b, const struct mo_profile_line *line, int cores, int level) {
    struct mo_profile *const *known = b->time[line->variant];
    int64_t solo = mo_profile_time(b->time[line->variant][0], cores, line->layer, line->layer + 1);
    const struct mo_profile_machine *m = b->machine;
    int below = level, above = level;
    while (!known[below])
        below--;
    while (above < MO_PROFILE_LEVELS && !known[above])
        above++;
    if (above < MO_PROFILE_LEVELS) { /* measured at or around this level */
        int64_t low = mo_profile_time(known[below], cores, line->layer, line->layer + 1);
        int64_t high = mo_profile_time(known[above], cores, line->layer, line->layer + 1);
        return above > below ? low + (high - low) * (level - below) / (above - below) : low;
    }
    if (below > 0) return mo_profile_time(known[below], cores, line->layer, line->layer + 1);
    if (m->bytes_ns <= 0) return solo;
    double left = 1 - (double)level / (MO_PROFILE_LEVELS - 1), even = (double)cores / m->cores;
    double bytes = line->kib * 1024 + mo_profile_reread(m, line, cores, true);
    int64_t memory = (int64_t)(bytes / (m->bytes_ns * (left > even ? left : even)));
    return memory > solo ? memory : solo;
}

static const struct mo_profile_line *choose(const struct builder *b, int layer, int cores, int level) {
    const struct mo_profile_line *best = line_of(b, 0, 0, layer);
    double least = MARGIN * (double)time_at(b, best, cores, level);
    int all = 1, most = b->machine->versions;
    while (all < b->n_variants && line_of(b, all, 0, layer))
        all++;
    for (int i = 1; i < mo_version_count(all, most); i++) {
        const struct mo_profile_line *l = line_of(b, mo_version_kept(all, most, i), 0, layer);
        double time = (double)time_at(b, l, cores, level);
        if (time >= least) continue;
        least = time;
        best = l;
    }
    return best;
}

static void fill(const struct builder *b, int level, int cores, unsigned *used) {
    struct mo_profile_does *sum = mo_profile_level(b->out, level, cores);
    int n = b->table->n_layers;
    for (int l = 0; l < n; l++) {
        const struct mo_profile_line *line = choose(b, l, cores, level);
        used[l] |= 1u << line->variant;
        sum[l + 1] = (struct mo_profile_does){
            sum[l].solo + mo_profile_time(b->time[line->variant][0], cores, l, l + 1),
            sum[l].under + time_at(b, line, cores, level),
            sum[l].alone + (int64_t)mo_profile_reread(b->machine, line, cores, false),
            sum[l].shared + (int64_t)mo_profile_reread(b->machine, line, cores, true)};
    }
}

static int fill_all(struct builder *b, moire_error *err) {
    struct mo_profile *p = b->out;
    size_t cells = ((size_t)p->max_cores + 1) * ((size_t)p->n_layers + 1);
    unsigned *used = mo_alloc(p->env, (size_t)p->n_layers * sizeof *used);
    p->level = mo_alloc(p->env, MO_PROFILE_LEVELS * cells * sizeof *p->level);
    bool *some = mo_alloc(p->env, (size_t)p->n_layers * sizeof *some);
    bool ok = used && some && p->level;
    for (int level = 0; ok && level < MO_PROFILE_LEVELS; level++)
        for (int c = 1; c <= p->max_cores; c++)
            fill(b, level, c, used);
    for (int l = 0; ok && l < p->n_layers; l++) {
        p->needed[__builtin_popcount(used[l])]++;
        some[l] = used[l] & (used[l] - 1);
    }
    ok = ok && !mo_profile_choices(p, some) && mo_ladder_crowd(p);
    mo_free(p->env, some);
    mo_free(p->env, used);
    return ok ? MOIRE_OK
              : mo_fail(err, MOIRE_ENOMEM, "out of memory for the versions of '%s'", b->table->model);
}

int mo_profile_versions(const struct mo_profile_machine *machine, const struct mo_profile_table *t,
                        struct mo_profile *profile, moire_error *err) {
    struct builder b = {.machine = machine, .table = t, .out = profile};
    for (int i = 0; i < t->n_lines; i++)
        if (t->lines[i].variant >= b.n_variants) b.n_variants = t->lines[i].variant + 1;
    if (b.n_variants > MO_PROFILE_VERSIONS)
        return mo_fail(err, MOIRE_ELIMIT, "the profile of '%s' has more than %d versions of a layer",
                       t->model, MO_PROFILE_VERSIONS);
    if (b.n_variants < 2 && !t->locality) return MOIRE_OK;
    b.line = mo_alloc(profile->env,
                      (size_t)b.n_variants * MO_PROFILE_LEVELS * (size_t)t->n_layers * sizeof *b.line);
    int code =
        b.line ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for the versions of '%s'", t->model);
    if (!code) index_lines(&b);
    if (!code) code = read_times(&b, err);
    if (!code) code = fill_all(&b, err);
    for (int v = 0; v < b.n_variants; v++)
        for (int level = 0; level < MO_PROFILE_LEVELS; level++)
            mo_profile_destroy(b.time[v][level]);
    mo_free(profile->env, (void *)b.line);
    return code;
}
