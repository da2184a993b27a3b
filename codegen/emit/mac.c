/* SPDX-License-Identifier: Apache-2.0
 * mac.c - the multiply-accumulate tile as text: declarations, start values, one step.
 *
 * A step reads one weight vector for each vector of output channels and one scalar for each pixel.  Folding
 * the broadcast into the FMA saves an instruction each and repeats the load for every weight vector: always
 * right with one of them (of the FMA ceiling a Zen 4 core reaches 98 % so, 72 % otherwise); with more, cores
 * with two loads a cycle and two FMAs prefer one broadcast shared by all, others do not. */
#include "codegen/emit/emit.h"

#include <inttypes.h>

int mo_mac_vectors(const struct mo_mac *m) {
    return m->blocks * m->isa->vectors;
}

bool mo_mac_fits(const struct mo_emit_isa *isa, int64_t vectors, int64_t pixels) {
    if (!isa->constraint) return vectors * pixels <= isa->max_acc; /* who knows what a compiler keeps */
    return vectors * pixels + vectors + isa->pairs + isa->flips + (isa->by_lane ? pixels : 1) <= isa->regs;
}

void mo_mac_declare(FILE *out, const struct mo_mac *m, int indent) {
    for (int r = 0; r < mo_mac_vectors(m); r++) {
        fprintf(out, "%*sv", indent, "");
        for (int t = 0; t < m->rows * m->cols; t++)
            fprintf(out, "%s a%d_%d", t ? "," : "", r, t);
        fputs(";\n", out);
    }
}

void mo_mac_start(FILE *out, const struct mo_mac *m, int indent, const char *bias) {
    for (int r = 0; r < mo_mac_vectors(m); r++) {
        fprintf(out, "%*s", indent, "");
        for (int t = 0; t < m->rows * m->cols; t++)
            fprintf(out, "a%d_%d = ", r, t);
        fprintf(out, "load(%s + %d);\n", bias, r * m->isa->lanes * 4);
    }
}

void mo_mac_zero(FILE *out, const struct mo_mac *m, int indent) {
    for (int r = 0; r < mo_mac_vectors(m); r++) {
        fprintf(out, "%*s", indent, "");
        for (int t = 0; t < m->rows * m->cols; t++)
            fprintf(out, "a%d_%d = ", r, t);
        fputs("splat(0.0f);\n", out);
    }
}

void mo_mac_open_product(FILE *out, const struct mo_mac *m, int64_t apart) {
    fputs("    v x_", out);
    for (int r = 0; r < mo_mac_vectors(m); r++)
        fprintf(out, ", w%d", r);
    fputs(";\n", out);
    mo_mac_declare(out, m, 4);
    fputs("    (void)x_;\n", out);
    for (int b = 1; b < m->blocks && !m->panel; b++)
        fprintf(out, "    const char *q%d = q0 + %" PRId64 ";\n", b, b * apart);
    mo_mac_zero(out, m, 4);
}

void mo_mac_close_product(FILE *out, const struct mo_mac *m, int64_t apart) {
    int vectors = m->isa->vectors;
    for (int r = 0; r < mo_mac_vectors(m); r++)
        for (int t = 0; t < m->rows * m->cols; t++)
            fprintf(out, "    store(m + %" PRId64 ", a%d_%d);\n",
                    r / vectors * apart + r % vectors * m->isa->lanes * 4 + t * 64, r, t);
    fputs("}\n\n", out);
}

/* How much of vector r an FMA must cover: nothing where all its channels are padding of the last block, half
 * where at most the lower half exists.  Half costs half on cores that split a vector of 512 bits in two. */
enum width { NOTHING, HALF, FULL };

static enum width width_of(const struct mo_mac *m, int r) {
    int lanes = m->isa->lanes, left = m->used - r % m->isa->vectors * lanes;
    if (!m->used || r / m->isa->vectors < m->blocks - 1) return FULL;
    if (left <= 0) return NOTHING;
    return lanes == 16 && left <= 8 ? HALF : FULL;
}

int mo_mac_active(const struct mo_mac *m) {
    int n = mo_mac_vectors(m);
    while (n > 0 && width_of(m, n - 1) == NOTHING)
        n--;
    return n;
}

/* Address of pixel t: "x1 + 132" or "x1 + 2 * px + 4". */
static void emit_pixel(FILE *out, const struct mo_mac *m, int t, long offset) {
    int row = t / m->cols, col = t % m->cols;
    if (m->px)
        fprintf(out, "x%d + %ld", row, col * m->px + offset);
    else
        fprintf(out, "x%d + %d * px + %ld", row, col, offset);
}

static void step_fold(FILE *out, const struct mo_mac *m, int indent, long xoff, uint64_t mask) {
    for (int t = 0; t < m->rows * m->cols; t++) {
        if (!(mask >> t & 1)) continue;
        fprintf(out, "%*s", indent, "");
        for (int r = 0; r < mo_mac_active(m); r++) {
            fprintf(out, "%sa%d_%d = mac_fold%s(a%d_%d, w%d, ", r ? " " : "", r, t,
                    width_of(m, r) == HALF ? "_half" : "", r, t, r);
            emit_pixel(out, m, t, xoff);
            fputs(");", out);
        }
        fputc('\n', out);
    }
}

static void step_broadcast(FILE *out, const struct mo_mac *m, int indent, long xoff, uint64_t mask) {
    for (int t = 0; t < m->rows * m->cols; t++) {
        const bool inside = mask >> t & 1;
        if (!inside && !m->fills) continue;
        fprintf(out, "%*s", indent, "");
        if (inside) {
            fputs("x_ = broadcast(", out);
            emit_pixel(out, m, t, xoff);
            fputs(");", out);
        }
        for (int r = 0; r < mo_mac_active(m); r++)
            fprintf(out, " a%d_%d = mac%s(a%d_%d, w%d, %s);", r, t, width_of(m, r) == HALF ? "_half" : "", r,
                    t, r, inside ? "x_" : "z_");
        fputc('\n', out);
    }
}

static void step_vector(FILE *out, const struct mo_mac *m, int indent, long xoff, uint64_t mask) {
    for (int t = 0; t < m->rows * m->cols; t++) {
        if (!(mask >> t & 1)) continue;
        fprintf(out, "%*s", indent, "");
        for (int r = 0; r < mo_mac_vectors(m); r++) {
            fprintf(out, "%sa%d_%d = mac_load(a%d_%d, w%d, ", r ? " " : "", r, t, r, t, r);
            emit_pixel(out, m, t, xoff + r * m->isa->lanes * 4);
            fputs(");", out);
        }
        fputc('\n', out);
    }
}

static void load_weights(FILE *out, const struct mo_mac *m, int indent, long woff) {
    for (int r = 0; r < mo_mac_active(m); r++) {
        int block = r / m->isa->vectors, part = r % m->isa->vectors;
        if (m->panel) {
            fprintf(out, "%*sw%d = load(q0 + %ld);\n", indent, "", r,
                    woff * m->blocks + r * m->isa->lanes * 4L);
            continue;
        }
        fprintf(out, "%*sw%d = load(q%d + %ld);", indent, "", r, block, woff + part * m->isa->lanes * 4);
        if (m->ahead && !part)
            fprintf(out, " __builtin_prefetch(q%d + %ld + %s, 0, %d);", block, woff, m->ahead,
                    m->ahead_far ? 2 : 3);
        fputc('\n', out);
    }
}

/* As many channels as a vector has lanes: one load a pixel serves all of them. */
static void steps_by_lane(FILE *out, const struct mo_mac *m, int indent, int channel, uint64_t mask) {
    fprintf(out, "%*s{\n%*s", indent, "", indent + 4, "");
    for (int t = 0, first = 1; t < m->rows * m->cols; t++) {
        if (!(mask >> t & 1)) continue;
        fprintf(out, "%sp%d = %s(", first ? "const v " : ", ", t, m->isa->flips ? "pixel" : "load");
        first = 0;
        emit_pixel(out, m, t, channel * 4);
        fputc(')', out);
    }
    fputs(";\n", out);
    for (int lane = 0; lane < m->isa->lanes; lane++) {
        load_weights(out, m, indent + 4, (channel + lane) * 64L);
        for (int t = 0; t < m->rows * m->cols; t++) {
            const bool inside = mask >> t & 1;
            if (!inside && !m->fills) continue;
            char x[16] = "z_";
            if (inside) snprintf(x, sizeof x, "p%d", t);
            fprintf(out, "%*s", indent + 4, "");
            for (int r = 0; r < mo_mac_active(m); r++)
                fprintf(out, "%sa%d_%d = mac_lane%d(a%d_%d, w%d, %s);", r ? " " : "", r, t, lane, r, t, r, x);
            fputc('\n', out);
        }
    }
    fprintf(out, "%*s}\n", indent, "");
}

void mo_mac_channels(FILE *out, const struct mo_mac *m, int indent, int n, uint64_t mask) {
    int at = 0;
    for (; m->isa->by_lane && at + m->isa->lanes <= n; at += m->isa->lanes)
        steps_by_lane(out, m, indent, at, mask);
    for (; at < n; at++)
        mo_mac_step(out, m, indent, at * 64L, at * 4L, mask);
}

void mo_mac_step(FILE *out, const struct mo_mac *m, int indent, long woff, long xoff, uint64_t mask) {
    load_weights(out, m, indent, woff);
    if (m->vector_x)
        step_vector(out, m, indent, xoff, mask);
    else if (m->fold)
        step_fold(out, m, indent, xoff, mask);
    else
        step_broadcast(out, m, indent, xoff, mask);
}

bool mo_mac_row_fits(const struct mo_mac *m, int taps, int others) {
    return m->isa->constraint && mo_mac_vectors(m) * (m->rows * m->cols + taps) + 1 + others <= m->isa->regs;
}

/* What vector r of input `at` of a row adds to the pixels of row i. */
static void row_input(FILE *out, const struct mo_mac *m, int indent, const struct mo_mac_taps *t, int i,
                      int r, int at) {
    bool loaded = false;
    for (int k = 0; k < t->n; k++) {
        int from = at - k * t->dilation, col = from / t->stride, pixel = i * m->cols + col;
        if (from < 0 || from % t->stride || col >= m->cols || !(t->mask[k] >> pixel & 1)) continue;
        if (!loaded)
            fprintf(out, "%*sx_ = load(x%d + %ld);", indent, "", i, at * t->input + r * m->isa->lanes * 4);
        loaded = true;
        fprintf(out, " a%d_%d = mac(a%d_%d, w%d_%d, x_);", r, pixel, r, pixel, r, k);
    }
    if (loaded) fputc('\n', out);
}

void mo_mac_row(FILE *out, const struct mo_mac *m, int indent, const struct mo_mac_taps *t) {
    int inputs = (m->cols - 1) * t->stride + (t->n - 1) * t->dilation + 1;
    for (int r = 0; r < mo_mac_vectors(m); r++)
        for (int k = 0; k < t->n; k++)
            if (t->mask[k])
                fprintf(out, "%*sconst v w%d_%d = load(q0 + %ld);\n", indent, "", r, k,
                        k * t->weight + r * m->isa->lanes * 4);
    for (int i = 0; i < m->rows; i++)
        for (int r = 0; r < mo_mac_vectors(m); r++)
            for (int at = 0; at < inputs; at++)
                row_input(out, m, indent, t, i, r, at);
}
