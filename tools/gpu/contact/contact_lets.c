/* SPDX-License-Identifier: Apache-2.0
 * contact_lets.c - probes of lets: groups of SMs, events, overlap in time, graphs, memory. */
#include "tools/gpu/contact/contact.h"

#include <stdio.h>

enum { ROUNDS = 20, TEXT = 120 };

/* --- split ---------------------------------------------------------------------------------------------- */
static void look(struct contact *c, const char *what, unsigned first, unsigned n) {
    struct contact_let let;
    char text[TEXT] = "";
    const double begin = contact_ms();
    unsigned r = contact_let_open(c, first, n, &let);
    const double made = contact_ms() - begin;
    if (!r) r = contact_clear(c, let.stream);
    if (!r) r = contact_spin(c, let.stream, let.sms, 4);
    if (!r) r = contact_wait(c, let.stream);
    const int seen = r ? -1 : contact_seen(c, text, sizeof text);
    contact_row(c, !r && seen == (int)let.sms, what, "%s; made in %.2f ms; %d of %u SMs seen: %s",
                contact_name(c, r), made, seen, let.sms, text);
    contact_let_close(c, &let);
}

void contact_split(struct contact *c) {
    char name[96] = "";
    int level = 0;
    c->cu.device_name(name, sizeof name, c->device);
    c->cu.driver_version(&level);
    contact_row(c, -1, "GPU", "%s, driver interface %d.%d", name, level / 1000, level % 1000 / 10);
    contact_row(c, c->n > 1, "split", "%u SMs, least %u, alignment %u: %u groups of %u, %u left over",
                c->all.sm.count, c->all.sm.least, c->all.sm.align, c->n, c->size,
                c->rest.type == MO_CU_RESOURCE_SM ? c->rest.sm.count : 0);
    look(c, "let of the first group", 0, 1);
    look(c, "let of two groups", 0, 2);
    look(c, "the same two groups once more", 0, 2);
    look(c, "let of the last group", c->n - 1, 1);
    look(c, "let of all groups", 0, c->n);
    look(c, "let of the unsplit GPU", 0, 0);
}

/* --- events --------------------------------------------------------------------------------------------- */
void contact_events(struct contact *c) {
    const struct mo_cuda_driver *cu = &c->cu;
    struct contact_let let;
    mo_cu_event primary = NULL;
    float ms = -1;
    unsigned r = contact_let_open(c, 0, 1, &let);
    if (r) return contact_row(c, 0, "let", "%s", contact_name(c, r));
    r = cu->event_create(&primary, 0);
    if (!r) r = cu->event_record(primary, let.stream);
    contact_row(c, -1, "event of the primary context on a let's stream", "%s", contact_name(c, r));
    r = cu->event_record(let.begin, let.stream);
    if (!r) r = contact_spin(c, let.stream, let.sms, ROUNDS);
    if (!r) r = cu->event_record(let.end, let.stream);
    contact_row(c, !r, "event of the let's context, the primary one current", "%s", contact_name(c, r));
    const double begin = contact_ms();
    int polls = 0;
    while ((r = cu->event_query(let.end)) == MO_CU_NOT_READY)
        polls++;
    const double each = (contact_ms() - begin) / (polls + 1) * 1e3;
    if (!r) r = cu->event_elapsed(&ms, let.begin, let.end);
    contact_row(c, !r && ms > 0, "asked and timed, the primary context current",
                "%s; a kernel of %.3f ms; %.2f us a poll", contact_name(c, r), (double)ms, each);
    contact_let_close(c, &let);
}

/* --- overlap -------------------------------------------------------------------------------------------- */
/* Milliseconds until `n` streams have done their rounds; negative: it failed. */
static double together(struct contact *c, struct contact_let *lets, int n) {
    unsigned r = 0;
    const double begin = contact_ms();
    for (int i = 0; i < n && !r; i++)
        r = contact_spin(c, lets[i].stream, lets[i].sms, ROUNDS * 5);
    for (int i = 0; i < n && !r; i++)
        r = contact_wait(c, lets[i].stream);
    return r ? -1 : contact_ms() - begin;
}

/* Lets of one group each, side by side. */
static void side_by_side(struct contact *c, int n) {
    struct contact_let lets[CONTACT_GROUPS] = {{0}};
    unsigned r = 0;
    char what[TEXT];
    for (int i = 0; i < n && !r; i++)
        r = contact_let_open(c, (unsigned)i, 1, &lets[i]);
    snprintf(what, sizeof what, "%d disjoint lets at once", n);
    if (r) return contact_row(c, 0, what, "%s", contact_name(c, r));
    (void)together(c, lets, n);
    const double one = together(c, lets, 1), all = together(c, lets, n);
    contact_row(c, one > 0 && all > 0 &&
                           all<1.5 * one, what, "one takes %.2f ms, all %.2f ms: %.2f x", one, all, one> 0
                       ? all / one
                       : 0);
    for (int i = 0; i < n; i++)
        contact_let_close(c, &lets[i]);
}

/* Two lets over the same SMs share them. */
static void on_top(struct contact *c) {
    struct contact_let lets[2] = {{0}};
    unsigned r = contact_let_open(c, 0, 2, &lets[0]);
    if (!r) r = contact_let_open(c, 0, 4, &lets[1]);
    if (r) return contact_row(c, 0, "two lets that overlap", "%s", contact_name(c, r));
    (void)together(c, lets, 2);
    const double one = together(c, lets, 1), both = together(c, lets, 2);
    contact_row(c, one > 0 && both > 0, "two lets that overlap", "the small one takes %.2f ms, both %.2f ms",
                one, both);
    for (int i = 0; i < 2; i++)
        contact_let_close(c, &lets[i]);
}

void contact_overlap(struct contact *c) {
    const int most = (int)c->n;
    for (int n = 2; n < most; n *= 2)
        side_by_side(c, n);
    side_by_side(c, most);
    if (c->n >= 4) on_top(c);
}

/* --- graphs --------------------------------------------------------------------------------------------- */
static unsigned capture(struct contact *c, const struct contact_let *let, int n, mo_cu_graph_exec *out) {
    const struct mo_cuda_driver *cu = &c->cu;
    mo_cu_graph graph = NULL;
    unsigned r = cu->capture_begin(let->stream, MO_CU_CAPTURE_RELAXED);
    if (r) return r;
    for (int i = 0; i < n && !r; i++)
        r = contact_spin(c, let->stream, 1, 1);
    const unsigned ended = cu->capture_end(let->stream, &graph);
    if (!r) r = ended;
    if (!r) r = cu->graph_instantiate(out, graph, 0);
    if (graph) cu->graph_destroy(graph);
    return r ? r : cu->graph_upload(*out, let->stream);
}

/* A graph captured on one let, launched there and on another: on which SMs it ran.  most: SMs that it may
 * have run on; 0 = any. */
static void replay(struct contact *c, mo_cu_graph_exec graph, const struct contact_let *on, int most,
                   const char *what) {
    char text[TEXT] = "";
    unsigned r = contact_clear(c, on->stream);
    if (!r) r = c->cu.graph_launch(graph, on->stream);
    if (!r) r = contact_wait(c, on->stream);
    const int seen = r ? -1 : contact_seen(c, text, sizeof text);
    contact_row(c, most ? !r && seen > 0 && seen <= most : -1, what, "%s; %d SMs: %s", contact_name(c, r),
                seen, text);
}

void contact_graphs(struct contact *c) {
    struct contact_let lets[2] = {{0}};
    mo_cu_graph_exec graph = NULL;
    enum { NODES = 100, LAUNCHES = 200 };
    unsigned r = contact_let_open(c, 0, 1, &lets[0]);
    if (!r) r = contact_let_open(c, c->n - 1, 1, &lets[1]);
    const double begin = contact_ms();
    if (!r) r = capture(c, &lets[0], NODES, &graph);
    contact_row(c, !r, "captured on a let, the primary context current", "%s; %d kernels in %.2f ms",
                contact_name(c, r), NODES, contact_ms() - begin);
    if (r) return;
    replay(c, graph, &lets[0], (int)lets[0].sms, "replayed on its let");
    replay(c, graph, &lets[1], 0, "replayed on another let");
    double took = 0;
    for (int i = 0; i < LAUNCHES && !r; i++) {
        const double at = contact_ms();
        r = c->cu.graph_launch(graph, lets[0].stream);
        took += contact_ms() - at;
        if (!r) r = contact_wait(c, lets[0].stream);
    }
    contact_row(c, !r, "a launch of a graph", "%s; %.2f us of the host", contact_name(c, r),
                took / LAUNCHES * 1e3);
    took = 0;
    for (int i = 0; i < LAUNCHES && !r; i++) {
        const double at = contact_ms();
        r = contact_spin(c, lets[i % 2].stream, 1, 1);
        took += contact_ms() - at;
    }
    for (int i = 0; i < 2 && !r; i++)
        r = contact_wait(c, lets[i].stream);
    contact_row(c, !r, "launches that alternate between two lets", "%s; %.2f us of the host each",
                contact_name(c, r), took / LAUNCHES * 1e3);
    c->cu.graph_exec_destroy(graph);
    for (int i = 0; i < 2; i++)
        contact_let_close(c, &lets[i]);
}

/* --- memory --------------------------------------------------------------------------------------------- */
static double free_mib(struct contact *c) {
    size_t left = 0, total = 0;
    c->cu.memory_info(&left, &total);
    return (double)left / 1048576;
}

static void of_contexts(struct contact *c) {
    struct contact_let lets[CONTACT_GROUPS] = {{0}};
    const double before = free_mib(c), begin = contact_ms();
    unsigned r = 0, n = 0;
    for (; n < c->n && !r; n++)
        r = contact_let_open(c, n, 1, &lets[n]);
    const double ms = contact_ms() - begin;
    for (unsigned i = 0; i < n && !r; i++)
        r = contact_spin(c, lets[i].stream, 1, 1);
    for (unsigned i = 0; i < n && !r; i++)
        r = contact_wait(c, lets[i].stream);
    contact_row(c, !r, "contexts of lets", "%s; %u: %.2f ms and %.1f MiB each", contact_name(c, r), n, ms / n,
                (before - free_mib(c)) / n);
    for (unsigned i = 0; i < n; i++)
        contact_let_close(c, &lets[i]);
}

/* Whether taking memory, and giving it back, waits for what another let does. */
static void while_busy(struct contact *c) {
    struct contact_let let;
    mo_cu_ptr at = 0;
    unsigned r = contact_let_open(c, 0, 1, &let);
    if (!r) r = contact_spin(c, let.stream, let.sms, 1000);
    const double begin = contact_ms();
    if (!r) r = c->cu.memory_alloc(&at, 64 << 20);
    const double taken = contact_ms();
    if (!r) r = c->cu.memory_free(at);
    const double given = contact_ms();
    const unsigned busy = r ? r : c->cu.stream_query(let.stream);
    if (!r) r = contact_wait(c, let.stream);
    contact_row(c, -1, "64 MiB taken and given back beside a kernel",
                "%s; %.2f ms, %.2f ms; the kernel %s (%.1f ms)", contact_name(c, r), taken - begin,
                given - taken, busy == MO_CU_NOT_READY ? "ran on" : "had ended: giving back waits",
                contact_ms() - begin);
    contact_let_close(c, &let);
}

static void link_rate(struct contact *c) {
    enum { MIB = 32 };
    mo_cu_ptr at = 0;
    void *host = NULL;
    mo_cu_stream s = NULL;
    double ms[2] = {0};
    unsigned r = c->cu.memory_alloc(&at, MIB << 20);
    if (!r) r = c->cu.host_alloc(&host, MIB << 20, MO_CU_HOST_PORTABLE);
    if (!r) r = c->cu.stream_create(&s, MO_CU_STREAM_NON_BLOCKING, 0);
    for (int i = 0; i < 6 && !r; i++) {
        const double begin = contact_ms();
        r = i % 2 ? c->cu.copy_out(host, at, MIB << 20, s) : c->cu.copy_in(at, host, MIB << 20, s);
        if (!r) r = contact_wait(c, s);
        ms[i % 2] = contact_ms() - begin;
    }
    contact_row(c, !r, "copies of 32 MiB", "%s; %.1f GB/s in, %.1f out", contact_name(c, r),
                MIB * 1.048576 / ms[0], MIB * 1.048576 / ms[1]);
}

void contact_memory(struct contact *c) {
    of_contexts(c);
    while_busy(c);
    link_rate(c);
}
