/* SPDX-License-Identifier: Apache-2.0
 * walk_units.c - the rest of a walk's C: the tiles of a unit, the range of units, the descriptor. */
#include "codegen/family/walk_groups.h"

bool mo_walk_last_differs(const struct mo_walk *w) {
    if (w->kind == MO_WALK_GROUPED) return mo_walk_mixes_some(w);
    bool part = mo_walk_used(w) || (w->kind == MO_WALK_GEMM && w->outs % 16);
    return w->ocb % w->blocks || (part && w->sets_group > 1);
}

int mo_walk_used(const struct mo_walk *w) {
    int used = (int)(w->outs % 16);
    return !w->small && w->groups == 1 && !mo_walk_own_planes(w) && used > 0 && used <= 8 ? used : 0;
}

int mo_walk_vectors(const struct mo_walk *w, int64_t blocks) {
    int used = blocks == w->ocb ? mo_walk_used(w) : 0, idle = used ? (16 - used) / w->isa->lanes : 0;
    return (int)blocks * w->isa->vectors - idle;
}

bool mo_walk_adds_late(const struct mo_walk *w) {
    return w->p->fuse.residual >= 0 && w->p->fuse.residual_last;
}

void mo_walk_emit_finish(FILE *out, const struct mo_walk *w) {
    fprintf(
        out,
        "static __attribute__((noinline, unused)) void finish(char *y, const char *res, i64 n, i64 step) {\n"
        "    (void)res;\n"
        "    for (i64 i = 0; i < n; i++, y += step%s) store(y, act(load(y))%s);\n}\n\n",
        mo_walk_adds_late(w) ? ", res += step" : "", mo_walk_adds_late(w) ? " + load(res)" : "");
}

static void emit_runs(FILE *out, const struct mo_axis *axis, const char *name) {
    fprintf(out, "static const struct { i64 first; int cls; } %s_run[] = {", name);
    for (int i = 0; i < axis->n_runs; i++)
        fprintf(out, "{%lld, %d}, ", (long long)axis->run[i].first, axis->run[i].cls);
    fprintf(out, "{%lld, 0}};\n", (long long)axis->tiles);
    mo_axis_emit_at(out, axis, name);
}

/* Pointers to a set's weights, bias, output and residual, and its row of the table of tile functions. */
static void emit_set(FILE *out, const struct mo_walk *w, int indent) {
    long long per = (long long)w->sets_group;
    fprintf(out, "%*sconst i64 group = set / %lld, first = group * %lld + set %% %lld * %d;\n", indent, "",
            per, (long long)w->ocb, per, w->blocks);
    fprintf(out, "%*stile_fn *const(*fn)[%d] = tiles[", indent, "", w->col.n_classes);
    if (w->kind == MO_WALK_GROUPED)
        fputs(mo_walk_last_differs(w) ? "mixed[first]];\n" : "0];\n", out);
    else if (mo_walk_last_differs(w))
        fprintf(out, "set %% %lld == %lld];\n", per, per - 1);
    else
        fputs("0];\n", out);
    if (w->gated)
        fprintf(out, "%*sconst char *w = (const char *)scratch + %s * %lld;\n", indent, "",
                w->sets_outer ? "0" : "set", (long long)w->w_block * w->blocks);
    else
        fprintf(out, "%*sconst char *w = (const char *)a->weights + first * %lld;\n", indent, "",
                (long long)w->w_block);
    fprintf(out, "%*sconst char *b = (const char *)a->bias + first * 64;\n", indent, "");
    fprintf(out, "%*schar *y = (char *)a->out[0] + image * a->out_image[0] + first * %lld;\n", indent, "",
            (long long)w->y_block);
    if (w->p->fuse.residual >= 0)
        fprintf(
            out,
            "%*sconst char *res = (const char *)a->residual + image * a->residual_image + first * %lld;\n",
            indent, "", (long long)w->y_block);
    if (w->small) mo_walk_small_set(out, indent);
    if (w->small) mo_walk_small_start(out, w, indent);
}

/* Row tiles [r0, r1) by column tiles [c0, c1) of one set of output blocks of one image, part by part. */
static void emit_conv_unit(FILE *out, const struct mo_walk *w) {
    const char *res = w->small ? "&end" : w->p->fuse.residual >= 0 ? "res + yo" : "0";
    long long rows = (long long)w->row_chunks, cols = (long long)(w->chunks / w->row_chunks);
    fputs("static void unit(const struct mo_kargs *a, i64 image, i64 set, i64 chunk, void *scratch) {\n"
          "    (void)scratch;\n",
          out);
    fprintf(out, "    const i64 r0 = chunk %% %lld * %lld / %lld, r1 = (chunk %% %lld + 1) * %lld / %lld;\n",
            rows, (long long)w->row.tiles, rows, rows, (long long)w->row.tiles, rows);
    fprintf(out, "    const i64 c0 = chunk / %lld * %lld / %lld, c1 = (chunk / %lld + 1) * %lld / %lld;\n",
            rows, (long long)w->col.tiles, cols, rows, (long long)w->col.tiles, cols);
    emit_set(out, w, 4);
    if (w->widens)
        fputs("    const char *x = scratch;\n", out);
    else
        fprintf(out, "    const char *x = (const char *)a->in[0] + image * a->in_image[0] + %s * %lld;\n",
                w->kind == MO_WALK_DEPTHWISE ? "first" : "group", (long long)w->x_group);
    char from[80] = "x + xo, w";
    if (w->parts > 1) {
        fprintf(out, "    for (i64 part = 0; part < %lld; part++)\n", (long long)w->parts);
        snprintf(from, sizeof from, "x + xo + part * %lld, w + part * %lld", (long long)w->x_part,
                 (long long)w->w_part);
    }
    fprintf(out,
            "    for (int j = 0; j < %d; j++)\n"
            "        for (i64 c = col_run[j].first; c < col_run[j + 1].first; c++)\n"
            "            for (int k = 0; c >= c0 && c < c1 && k < %d; k++) {\n"
            "                i64 lo = row_run[k].first > r0 ? row_run[k].first : r0;\n"
            "                i64 hi = row_run[k + 1].first < r1 ? row_run[k + 1].first : r1;\n"
            "                if (lo >= hi) continue;\n",
            w->col.n_runs, w->row.n_runs);
    char top[40];
    snprintf(top, sizeof top, w->widens ? "- row_at(r0) * %lld" : "- %lld",
             (long long)(w->widens ? w->row.stride : w->row.pad));
    fprintf(out,
            "                i64 xo = (row_at(lo) * %lld %s) * %lld + (col_at(c) * %lld - %lld) * %lld;\n"
            "                i64 yo = row_at(lo) * %lld + col_at(c) * %lld;\n"
            "                fn[row_run[k].cls][col_run[j].cls](%s, b, y + yo, %s, hi - lo, %s);\n"
            "            }\n}\n\n",
            (long long)w->row.stride, top, (long long)w->x_row, (long long)w->col.stride,
            (long long)w->col.pad, (long long)w->x_pixel, (long long)w->y_row, (long long)w->y_pixel, from,
            res,
            w->parts > 1                 ? "part"
            : w->kind == MO_WALK_GROUPED ? "first"
                                         : "0");
}

/* Copies the rows of one tile to the scratch as [K/16][row][16]: consecutive lines, where rows of the matrix
 * may all fall into one set of the cache. */
static void emit_pack(FILE *out, const struct mo_walk *w) {
    const long long k = (long long)w->channels, row = (long long)w->p->x_row * (w->small ? 1 : 4);
    const long long to_row = (long long)w->x_row, from = w->small ? 16 : 64;
    const char *type = w->small ? "quarter" : "vu";
    fprintf(out,
            "static void copy_rows(const char *x, char *to, i64 rows) {\n"
            "    for (i64 k = 0; k < %lld; k++)\n"
            "        for (i64 t = 0; t < rows; t++)\n",
            k / 16);
    if (w->isa->pairs)
        fprintf(out, "            widen(to + k * %lld + t * %lld, x + t * %lld + k * %lld);\n",
                (long long)w->x_plane, to_row, row, from);
    else
        fprintf(out,
                "            for (i64 i = 0; i < %lld; i += sizeof(%s))\n"
                "                *(%s *)(to + k * %lld + t * %lld + i) = *(const %s *)(x + t * %lld + k * "
                "%lld + i);\n",
                from, type, type, (long long)w->x_plane, to_row, type, row, from);
    if (k % 16)
        fprintf(out,
                "    for (i64 t = 0; t < rows; t++)\n"
                "        for (i64 i = 0; i < %lld; i++)\n"
                "            ((f32 *)(to + %lld + t * 64))[i] = ((const f32 *)(x + t * %lld + %lld))[i];\n",
                k % 16, k / 16 * (long long)w->x_plane, row, k / 16 * 64);
    fputs("}\n\n", out);
}

/* GEMM: one row tile, copied to the scratch, against the sets of one chunk.  Only the first row tile asks for
 * the next set's weights ahead: the others find them there. */
static void emit_packed_unit(FILE *out, const struct mo_walk *w) {
    long long chunk = (long long)w->unit_tiles;
    emit_pack(out, w);
    fputs("static void unit(const struct mo_kargs *a, i64 image, i64 chunk, i64 r0, void *scratch) {\n"
          "    (void)scratch;\n    int k = 0;\n",
          out);
    fprintf(out, "    while (k < %d && row_run[k + 1].first <= r0) k++;\n", w->row.n_runs - 1);
    fprintf(out, "    const char *x = (const char *)a->in[0] + image * a->in_image[0] + row_at(r0) * %lld;\n",
            (long long)w->p->x_row * (w->small ? 1 : 4));
    fputs("    copy_rows(x, scratch, row_at(r0 + 1) - row_at(r0));\n    x = scratch;\n", out);
    fprintf(out, "    for (i64 set = chunk * %lld; set < (chunk + 1) * %lld && set < %lld; set++) {\n", chunk,
            chunk, (long long)w->sets);
    emit_set(out, w, 8);
    fprintf(out, "        i64 yo = row_at(r0) * %lld;\n", (long long)w->y_row);
    fprintf(out, "        fn[row_run[k].cls][0](x, w, b, y + yo, %s, 1, r0);\n    }\n}\n\n",
            w->small                   ? "&end"
            : w->p->fuse.residual >= 0 ? "res + yo"
                                       : "0");
}

/* gate(): sets [first, last) of weights times the gate of an image, to the scratch. */
static void emit_gate(FILE *out, const struct mo_walk *w) {
    mo_emit_gate(out, w->isa);
    fprintf(out,
            "static void gate(const struct mo_kargs *a, i64 image, i64 first, i64 last, char *to) {\n"
            "    const char *factors = (const char *)a->in[%d] + image * a->in_image[%d];\n"
            "    const char *from = (const char *)a->weights;\n"
            "    const i64 end = last * %d < %lld ? last * %d : %lld;\n"
            "    for (i64 b = first * %d; b < end; b++, to += %lld)\n"
            "        gate_rows(to, from + b * %lld, factors, %lld);\n}\n\n",
            MO_GATE_IN, MO_GATE_IN, w->blocks, (long long)w->ocb, w->blocks, (long long)w->ocb, w->blocks,
            (long long)w->w_block, (long long)w->w_block, (long long)w->planes * 16);
}

static void emit_run(FILE *out, const struct mo_walk *w) {
    long long per_image = w->unit_sets * w->chunks,
              inner = (long long)(w->sets_outer ? w->chunks : w->unit_sets);
    if (w->gated) emit_gate(out, w);
    fputs("static void NAMED(run)(const struct mo_kargs *a, i64 begin, i64 end, void *scratch) {\n", out);
    if (w->gated || w->widens) fputs("    i64 have = -1;\n", out);
    fprintf(out,
            "    for (i64 u = begin; u < end; u++) {\n"
            "        i64 k = u %% %lld, set = k %s %lld, chunk = k %s %lld;\n",
            per_image, w->sets_outer ? "/" : "%", inner, w->sets_outer ? "%" : "/", inner);
    if (w->gated && w->sets_outer)
        fprintf(out,
                "        if (have != u / %lld) gate(a, u / %lld, set, set + 1, scratch);\n"
                "        have = u / %lld;\n",
                inner, per_image, inner);
    if (w->gated && !w->sets_outer)
        fprintf(out,
                "        if (have != u / %lld) gate(a, u / %lld, 0, %lld, scratch);\n"
                "        have = u / %lld;\n",
                per_image, per_image, (long long)w->sets, per_image);
    if (w->widens)
        fprintf(out,
                "        const i64 wanted = u / %lld * %lld + set / %lld;\n"
                "        if (have != wanted) widen_rows(a, u / %lld, set / %lld, chunk, scratch);\n"
                "        have = wanted;\n",
                inner, (long long)w->groups, (long long)w->sets_group, per_image, (long long)w->sets_group);
    fprintf(out, "        unit(a, u / %lld, set, chunk, scratch);\n    }\n}\n\n", per_image);
}

void mo_emit_descriptor(FILE *out, const struct mo_variant *v) {
    fprintf(out,
            "__attribute__((visibility(\"default\"))) extern const struct mo_variant mo_variant;\n"
            "const struct mo_variant mo_variant = {\n"
            "    .abi = %d, .packing = %d, .units = %lld, .scratch_bytes = %lld,\n"
            "    .parallelism_milli = %lld, .block_bytes = %lld, .l3_bytes = %lld, .flops_executed = %lld,\n"
            "    .mixes = %lld, .run = NAMED(run), .name = \"%s\",\n};\n",
            MO_KERNEL_ABI, (int)v->packing, (long long)v->units, (long long)v->scratch_bytes,
            (long long)v->parallelism_milli, (long long)v->block_bytes, (long long)v->l3_bytes,
            (long long)v->flops_executed, (long long)v->mixes, v->name);
}

void mo_emit_head(FILE *out, const struct mo_problem *p, const struct mo_emit_isa *isa, const char *name) {
    const struct mo_fuse *f = &p->fuse;
    fprintf(out, "/* %s\n * %s */\n", p->signature, name);
    mo_emit_prelude(out, isa);
    mo_emit_abi(out);
    if (mo_emit_act_needs_exp(f->act)) mo_emit_exp(out, isa);
    mo_emit_activation(out, f->act, "activation");
    fputs("INLINE v act(v x) { return activation(x, ", out);
    mo_emit_float(out, f->a);
    fputs(", ", out);
    mo_emit_float(out, f->b);
    fputs("); }\n\n", out);
    mo_emit_names(out, p->signature);
}

static void walk_head(FILE *out, const struct mo_walk *w, const char *name) {
    mo_emit_head(out, w->p, w->isa, name);
}

int mo_walk_emit(const struct mo_walk *w, const char *name, FILE *out, moire_error *err) {
    (w->small ? mo_walk_small_head : walk_head)(out, w, name);
    if (w->owns) mo_emit_own(out, w->isa);
    if (w->kind == MO_WALK_GROUPED) mo_walk_emit_sources(out, w);
    mo_walk_emit_tiles(out, w);
    emit_runs(out, &w->row, "row");
    if (w->packed) {
        emit_packed_unit(out, w);
    } else {
        emit_runs(out, &w->col, "col");
        if (w->widens) mo_walk_emit_widen(out, w);
        emit_conv_unit(out, w);
    }
    emit_run(out, w);
    mo_emit_descriptor(out, &(struct mo_variant){.packing = (int32_t)w->packing,
                                                 .units = w->n * w->unit_sets * w->chunks,
                                                 .scratch_bytes = w->scratch_bytes,
                                                 .parallelism_milli = mo_walk_parallelism_milli(w),
                                                 .block_bytes = mo_walk_block_bytes(w),
                                                 .l3_bytes = mo_walk_l3_bytes(w),
                                                 .flops_executed = mo_walk_flops(w),
                                                 .name = name});
    if (w->small) mo_emit_set_end(out, w->isa);
    return ferror(out) ? mo_fail(err, MOIRE_EIO, "cannot write the C of %s", name) : MOIRE_OK;
}
