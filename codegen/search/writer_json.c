/* SPDX-License-Identifier: Apache-2.0
 * writer_json.c - the descriptions in the variant store: structs to JSON bodies to envelopes; see writer.h
 * for what they mean and store_format.h for the envelope. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/search/writer_impl.h"
#include "variants/cpu.h"

int mo_writer_place_json(const struct mo_writer *w, const char *to, const json_t *body, moire_error *err) {
    char *text = body ? json_dumps(body, JSON_INDENT(1) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9)) : NULL;
    char *file = NULL, hex[MO_SHA256_HEX];
    size_t cap = text ? strlen(text) + 128 : 0;
    if (text) file = mo_alloc(w->env, cap);
    int rc = MOIRE_OK;
    if (!file) {
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory writing a description");
    } else {
        mo_sha256_hex(text, strlen(text), hex);
        int n = snprintf(file, cap, "{\"sha256\":\"%s\",\n\"body\":%s}\n", hex, text);
        rc = mo_writer_place(w, to, file, (size_t)n, err);
    }
    mo_free(w->env, file);
    free(text);
    return rc;
}

static json_t *entry_json(const struct mo_store_entry *e) {
    char cpu[MO_CPU_TEXT];
    mo_cpu_fingerprint(cpu);
    return json_pack("{si si si ss ss ss ss ss ss ss ss sI sI sf sf sf}", "format", MO_STORE_FORMAT, "abi",
                     e->abi, "generator", e->generator, "isa", mo_isa_name(e->isa), "signature", e->signature,
                     "family", e->family, "knobs", e->knobs, "compiler", e->compiler, "flags", e->flags,
                     "cpu", cpu, "object_sha256", e->object, "object_bytes", (json_int_t)e->object_bytes,
                     "source_bytes", (json_int_t)e->source_bytes, "min_ns", e->min_ns, "generic_ns",
                     e->generic_ns, "gflops", e->gflops);
}

int mo_writer_place_entry(const struct mo_writer *w, const char *key, const struct mo_store_entry *entry,
                          moire_error *err) {
    char to[MO_WRITER_FILE];
    json_t *body = entry_json(entry);
    mo_writer_path(w, key, ".json", to);
    int rc = mo_writer_place_json(w, to, body, err);
    json_decref(body);
    return rc;
}

/* A description that may replace an older one; takes over the body. */
static int set_json(struct mo_writer *w, const char *name, const char *suffix, json_t *body,
                    moire_error *err) {
    char subfolder[MO_WRITER_PATH + 8], to[MO_WRITER_FILE];
    int lock = mo_writer_lock(w, err),
        rc = lock < 0 ? MOIRE_ESTORE : mo_writer_subfolder(w, name, subfolder, err);
    mo_writer_path(w, name, suffix, to);
    if (!rc) rc = mo_writer_place_json(w, to, body, err);
    json_decref(body);
    if (!rc) rc = mo_trusted_sync(w->env, subfolder, err);
    mo_writer_unlock(w, lock);
    return rc;
}

int mo_writer_stamp(struct mo_writer *w, const char *name, const struct mo_store_stamp *stamp,
                    moire_error *err) {
    return set_json(w, name, ".stamp.json",
                    json_pack("{si si si ss ss ss si si sf ss}", "format", MO_STORE_FORMAT, "abi", stamp->abi,
                              "generator", stamp->generator, "model", stamp->model, "outside", stamp->outside,
                              "path", stamp->path, "verified", stamp->verified, "unverified",
                              stamp->unverified, "error", stamp->error, "error_layer", stamp->error_layer),
                    err);
}

static json_t *ranked_json(const struct mo_ranked *ranked, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{ss ss sf sf ss}", "family", ranked[i].family, "knobs",
                                              ranked[i].knobs, "predicted_ns", ranked[i].predicted_ns,
                                              "min_ns", ranked[i].min_ns, "verdict", ranked[i].verdict));
    return list;
}

int mo_writer_set(struct mo_writer *w, const struct mo_store_index *x, const struct mo_ranked *ranked, int n,
                  moire_error *err) {
    char layer[MO_SHA256_HEX];
    mo_store_layer(x->signature, x->isa, layer);
    json_t *body = json_pack(
        "{si si si ss ss ss ss ss si si sI sI sf sf ss so}", "format", MO_STORE_FORMAT, "abi", x->abi,
        "generator", x->generator, "isa", mo_isa_name(x->isa), "signature", x->signature, "best", x->best,
        "family", x->family, "knobs", x->knobs, "tried", x->tried, "cores", x->cores, "source_bytes",
        (json_int_t)x->source_bytes, "flops", (json_int_t)x->flops, "min_ns", x->min_ns, "generic_ns",
        x->generic_ns, "withdrawn", x->withdrawn, "ranked", ranked_json(ranked, n));
    return set_json(w, layer, ".best.json", body, err);
}

static json_t *point_json(const struct mo_store_point *p) {
    json_t *ns = json_array();
    for (int i = 0; i < MO_STORE_LEVELS; i++)
        json_array_append_new(ns, json_real(p->ns[i]));
    return json_pack("{ss ss ss ss sI sI sI sI sI sf so}", "key", p->key, "family", p->family, "knobs",
                     p->knobs, "state", mo_point_state_name(p->state), "packing", (json_int_t)p->packing,
                     "units", (json_int_t)p->units, "parallelism_milli", (json_int_t)p->parallelism_milli,
                     "block_bytes", (json_int_t)p->block_bytes, "l3_bytes", (json_int_t)p->l3_bytes,
                     "part_ns", p->part_ns, "ns", ns);
}

int mo_writer_front(struct mo_writer *w, const struct mo_store_front *f, moire_error *err) {
    char layer[MO_SHA256_HEX];
    json_t *points = json_array();
    mo_store_layer(f->signature, f->isa, layer);
    for (int i = 0; i < f->n; i++)
        json_array_append_new(points, point_json(&f->point[i]));
    json_t *body =
        json_pack("{si si si ss ss sf si si so}", "format", MO_STORE_FORMAT, "abi", f->abi, "generator",
                  f->generator, "isa", mo_isa_name(f->isa), "signature", f->signature, "share_ns",
                  f->share_ns, "cores", f->cores, "versions", f->versions, "points", points);
    return set_json(w, layer, ".front.json", body, err);
}
