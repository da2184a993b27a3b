/* SPDX-License-Identifier: Apache-2.0
 * boards.c - the meter `nvml`; see boards.h.
 *
 * A board without an energy counter is left out: watts that are looked at now and then say little of the
 * joules between. */
#include "runtime/power/boards.h"

#include <stdio.h>

struct board {
    int number;
    double last, joules;
    bool gone;
};

struct boards {
    const struct mo_env *env;
    const struct mo_energy_boards *of;
    int n;
    struct board board[MO_ENERGY_ROWS];
};

static bool look(const struct boards *b, int board, double *joules, char *why, size_t n) {
    double watts;
    *joules = -1;
    *why = 0;
    (void)b->of->look(b->of->self, board, &watts, joules, why, n); /* without watts is fine */
    return *joules >= 0;
}

static int boards_open(const struct mo_energy_config *c, void **out, moire_error *err) {
    char why[200] = "there is no GPU", first[200] = "";
    if (!c->boards) return mo_fail(err, MOIRE_EUNSUPPORTED, "%s", why);
    struct boards *b = mo_alloc(c->env, sizeof *b);
    if (!b) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    b->env = c->env;
    b->of = c->boards;
    for (int i = 0; i < b->of->n && b->n < MO_ENERGY_ROWS; i++) {
        struct board board = {.number = i};
        if (look(b, i, &board.last, why, sizeof why))
            b->board[b->n++] = board;
        else if (!*first)
            snprintf(first, sizeof first, "%s %d: %s", b->of->device, i, *why ? why : "no energy counter");
    }
    if (b->n) {
        if (*first) mo_log(c->env, MOIRE_LOG_INFO, "energy: left out: %s", first);
        *out = b;
        return MOIRE_OK;
    }
    mo_free(c->env, b);
    return mo_fail(err, MOIRE_EUNSUPPORTED, "%s", *first ? first : why);
}

static int boards_read(void *self, moire_energy_row *rows) {
    struct boards *b = self;
    char why[200];
    for (int i = 0; i < b->n; i++) {
        struct board *one = &b->board[i];
        double now;
        const bool there = look(b, one->number, &now, why, sizeof why);
        if (!there && !one->gone)
            mo_log(b->env, MOIRE_LOG_WARN, "energy: %s %d counts no more: %s", b->of->device, one->number,
                   why);
        one->gone = !there;
        if (there) {
            if (now > one->last)
                one->joules += now - one->last; /* it went back: its driver was loaded anew */
            one->last = now;
        }
        rows[i] = (moire_energy_row){
            .domain = "board", .source = "nvml", .measured = 1, .gone = one->gone, .joules = one->joules};
        snprintf(rows[i].device, sizeof rows[i].device, "%s:%d", b->of->device, one->number);
    }
    return b->n;
}

static void boards_close(void *self) {
    struct boards *b = self;
    mo_free(b->env, b);
}

const struct mo_energy_meter mo_energy_boards = {
    .name = "nvml",
    .about = "the boards' own counters, by NVML",
    .open = boards_open,
    .read = boards_read,
    .close = boards_close,
};
