/* SPDX-License-Identifier: Apache-2.0
 * emit-dot.c - what tiles of bytes have beside those of floats; see emit-dot.h. */
#include "tools/emit-dot.h"

/* Columns from stride to stride: neighbours share what they read. */
static void emit_shared_columns(FILE *out, const struct mo_mac *m, int r, int parts, int stride) {
    const int columns = 4 / parts;
    for (int at = 0; at < (m->cols - 1) * stride + 4; at++) {
        bool loaded = false;
        for (int k = 0; k < parts; k++) {
            int from = at - k * columns;
            if (from < 0 || from % stride || from / stride >= m->cols) continue;
            if (!loaded) fprintf(out, "            x_ = columns(x0 + %d);", at * 16 + r * 8);
            loaded = true;
            fprintf(out, " a%d_%d = mac(a%d_%d, w%d, x_);", r, from / stride, r, from / stride, k);
        }
        if (loaded) fputc('\n', out);
    }
}

void mo_emit_columns(FILE *out, const struct mo_mac *m) {
    const int parts = m->isa->pairs ? 2 : 1;
    for (int r = 0; r < mo_mac_vectors(m); r++) {
        for (int k = 0; k < parts; k++)
            fprintf(out, "            w%d = load(q0 + %d);\n", k, k * 64 + r * 32);
        if (m->px) emit_shared_columns(out, m, r, parts, (int)(m->px / 16));
        for (int i = 0; !m->px && i < m->cols * parts; i++) {
            const int col = i / parts, k = i % parts;
            fprintf(out, "            x_ = columns(x0 + %d * px + %d); a%d_%d = mac(a%d_%d, w%d, x_);\n", col,
                    k * 32 + r * 8, r, col, r, col, k);
        }
    }
}

static void emit_widen(FILE *out, const struct mo_mac *m, const char *from) {
    for (int row = 0; row < m->rows; row++)
        for (int col = 0; col < m->cols; col++) {
            fprintf(out, "            widen(next + %d, %s", (row * m->cols + col) * MO_DOT_WIDE_PIXEL, from);
            if (row) fputs(" + a->x_row", out);
            if (m->px)
                fprintf(out, " + %ld);\n", col * m->px);
            else
                fprintf(out, " + %d * px);\n", col);
        }
}

void mo_emit_wide_loops(FILE *out, const struct mo_mac *m, int steps) {
    struct mo_mac wide = *m;
    wide.px = MO_DOT_WIDE_PIXEL;
    int bytes = m->rows * m->cols * MO_DOT_WIDE_PIXEL;
    fprintf(out,
            "    v buffer[%d];\n"
            "    char *now = (char *)buffer, *next = now + %d;\n"
            "    const char *xo = x, *wo = a->w, *from = x + (a->n_taps ? a->taps->x : 0);\n"
            "    if (a->n_taps) {\n",
            2 * bytes / 32, bytes);
    emit_widen(out, m, "from");
    fputs("    }\n"
          "    for (i64 i = a->n_outer; i > 0; i--) {\n"
          "        const struct mo_tap *tap = a->taps, *end = tap + a->n_taps;\n"
          "        for (; tap < end; tap++) {\n"
          "            char *filled = next;\n"
          "            next = now, now = filled;\n"
          "            const char *q0 = wo + tap->w, *x0 = now;\n"
          "            from = tap + 1 < end ? xo + tap[1].x : xo + a->taps->x + (i > 1 ? a->x_outer : 0);\n",
          out);
    if (m->rows > 1) fprintf(out, "            const char *x1 = x0 + %d;\n", m->cols * MO_DOT_WIDE_PIXEL);
    emit_widen(out, m, "from");
    mo_mac_channels(out, &wide, 16, steps, ~0ull);
    fputs("        }\n        xo += a->x_outer; wo += a->w_outer;\n    }\n", out);
}
