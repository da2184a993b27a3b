/* SPDX-License-Identifier: Apache-2.0
 * winograd_fetch.c - what the transforms of large maps touch next, fetched while the products run.
 *
 * The products leave the memory idle, the transforms wait for it: their tiles are rows of a few lines, too
 * short and too far apart to be foreseen.  So each call of a product function also fetches an equal share of
 * the rows that the unit's output tiles will write, of the residual that they add, and, in the last unit
 * before V changes, of the next block's input tiles. */
#include "codegen/family/winograd.h"

/* Rows of tiles of one tensor. */
struct stream {
    const char *name, *base, *image; /* of the functions; text: the tensor, bytes to its next image */
    int rows, lines, skip;           /* of a tile; lines at a row's beginning that the tile before has read */
    int stride;                      /* pixels from one to the next, of output pixels */
    int64_t dh, dw;                  /* pixels from row to row, from line to line */
    int top, left;                   /* padding */
    int64_t width, plane;            /* pixels of an image's row; bytes of one block of its channels */
    bool writes;
    const char *range; /* text: first tile, tiles, first block, blocks */
};

static long long ll(int64_t x) {
    return x;
}

static void emit_stream(FILE *out, const struct stream *s) {
    long long row = ll(s->dh * s->width * 64);
    fprintf(out,
            "INLINE i64 %s_at(const struct mo_kargs *a, i64 tile, i64 block) {\n"
            "    const struct tile t = tile_at(tile);\n"
            "    return (i64)a->%s + t.image * a->%s + block * %lld + ((t.y * %d - %d) * %lld + t.x * %d + "
            "%lld) * "
            "64;\n}\n",
            s->name, s->base, s->image, ll(s->plane), s->stride, s->top, ll(s->width), s->stride,
            ll(s->skip * s->dw - s->left));
    fprintf(out,
            "static struct rows %s_rows(const struct mo_kargs *a, i64 first, i64 count, i64 block, i64 "
            "blocks, i64 calls) {\n"
            "    const i64 left = count * blocks * %d;\n"
            "    return (struct rows){%s_at(a, first, block), first, first, first + count, block, 0, left, "
            "(left + calls - 1) / calls};\n}\n",
            s->name, s->rows, s->name);
    fprintf(out,
            "INLINE void %s_fetch(const struct mo_kargs *a, struct rows *s) {\n"
            "    for (i64 n = 0; n < s->share && s->left > 0; n++, s->left--, s->at += %lld) {\n"
            "        for (i64 c = 0; c < %d; c++)\n"
            "            __builtin_prefetch((const char *)s->at + c * %lld, %d);\n"
            "        if (++s->row < %d) continue;\n"
            "        s->row = 0;\n"
            "        if (++s->tile == s->end) s->tile = s->first, s->block++;\n"
            "        s->at = %s_at(a, s->tile, s->block) - %lld;\n    }\n}\n\n",
            s->name, row, s->lines - s->skip, ll(s->dw * 64), s->writes, s->rows, s->name, row);
}

enum { STREAMS = 3 };

/* The tensors that a kernel fetches; their number. */
static int streams(const struct mo_wino *w, struct stream *s) {
    const struct mo_problem *p = w->p;
    const struct mo_winograd *down = &w->whole_down, *across = &w->whole_across;
    int n = 0;
    struct stream in = {.name = "input",
                        .base = "in[0]",
                        .image = "in_image[0]",
                        .rows = down->alpha,
                        .lines = across->alpha,
                        .skip = across->alpha - across->m * across->stride,
                        .stride = w->matrix.stride,
                        .dh = w->dh,
                        .dw = w->dw,
                        .top = p->pt,
                        .left = p->pl,
                        .width = p->w,
                        .plane = p->h * p->w * 64,
                        .range = "first + count, more, 0, in_blocks"};
    struct stream y = {.name = "output",
                       .base = "out[0]",
                       .image = "out_image[0]",
                       .rows = down->m,
                       .lines = across->m,
                       .stride = 1,
                       .dh = w->dh,
                       .dw = w->dw,
                       .width = p->ow,
                       .plane = p->oh * p->ow * 64,
                       .writes = true,
                       .range = "first, count, b0, b1 - b0"};
    if (mo_wino_streams_in(w)) s[n++] = in;
    if (mo_wino_streams_out(w)) s[n++] = y;
    y.name = y.base = "residual", y.image = "residual_image", y.writes = false;
    if (mo_wino_streams_out(w) && p->fuse.residual >= 0) s[n++] = y;
    return n;
}

void mo_wino_emit_fetch(FILE *out, const struct mo_wino *w) {
    struct stream s[STREAMS];
    int n = streams(w, s);
    fputs(
        "/* rows of `count` tiles of some blocks: address of the next one, its tile, block and row; `share` "
        "a call */\n"
        "struct rows { i64 at, tile, first, end, block, row, left, share; };\n"
        "struct fetches { struct rows input, output, residual; };\n\n",
        out);
    for (int i = 0; i < n; i++)
        emit_stream(out, &s[i]);
    fputs(
        "INLINE struct fetches fetches_of(const struct mo_kargs *a, i64 first, i64 count, i64 more, i64 b0, "
        "i64 b1, i64 calls) {\n"
        "    struct fetches f = {0};\n",
        out);
    fprintf(out,
            "    const i64 in_blocks = %lld;\n"
            "    (void)a, (void)first, (void)count, (void)more, (void)b0, (void)b1, (void)calls, "
            "(void)in_blocks;\n",
            ll(w->icb));
    for (int i = 0; i < n; i++)
        fprintf(out, "    f.%s = %s_rows(a, %s, calls);\n", s[i].name, s[i].name, s[i].range);
    fputs("    return f;\n}\n\nINLINE void fetch(const struct mo_kargs *a, struct fetches *f) {\n"
          "    (void)a, (void)f;\n",
          out);
    for (int i = 0; i < n; i++)
        fprintf(out, "    %s_fetch(a, &f->%s);\n", s[i].name, s[i].name);
    fputs("}\n\n", out);
}
