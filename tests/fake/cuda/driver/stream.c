/* SPDX-License-Identifier: Apache-2.0
 * stream.c - streams as threads, SMs taken and given back, events. */
#include "tests/fake/cuda/driver/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- records -------------------------------------------------------------------------------------------- */

void record(const struct item *item, const struct CUstream_st *s, int64_t begin, int64_t end) {
    if (fake.n_records == fake.room) {
        fake.room = fake.room ? 2 * fake.room : 256;
        fake.records = realloc(fake.records, (size_t)fake.room * sizeof *fake.records);
        if (!fake.records) abort();
    }
    struct mo_fake_record *r = &fake.records[fake.n_records++];
    *r = (struct mo_fake_record){
        .gpu = s->context->gpu->index, .priority = s->priority, .stream = s, .begin = begin, .end = end};
    snprintf(r->what, sizeof r->what, "%s", item->what);
    if (item->kernel) memcpy(r->sms, item->context->sms.w, sizeof r->sms);
}

/* --- SMs: one kernel at a time on each, the highest priority first, then who came first; and one of each
 * hardware queue, so that streams which share one wait for each other, whatever their SMs ---------------- */

static bool meet(const struct sms *a, const struct sms *b) {
    for (int i = 0; i < MO_FAKE_SM_WORDS; i++)
        if (a->w[i] & b->w[i]) return true;
    return false;
}

static bool may_begin(const struct gpu *g, const struct waiter *me) {
    if (meet(me->sms, &g->busy) || g->busy_queues >> me->queue & 1) return false;
    for (const struct waiter *w = g->waiting; w; w = w->next)
        if (w != me && meet(w->sms, me->sms) &&
            (w->priority < me->priority || (w->priority == me->priority && w->ticket < me->ticket)))
            return false;
    return true;
}

static void take_sms(struct gpu *g, const struct sms *sms, const struct CUstream_st *s) {
    struct waiter me = {
        .next = g->waiting, .sms = sms, .priority = s->priority, .queue = s->queue, .ticket = fake.tickets++};
    g->waiting = &me;
    fake.counts.waiting++;
    while (!g->poison && !may_begin(g, &me))
        pthread_cond_wait(&fake.free_sms, &fake.lock);
    struct waiter **at = &g->waiting;
    while (*at != &me)
        at = &(*at)->next;
    *at = me.next;
    fake.counts.waiting--;
    for (int i = 0; i < MO_FAKE_SM_WORDS; i++)
        g->busy.w[i] |= sms->w[i];
    g->busy_queues |= UINT32_C(1) << s->queue;
    pthread_cond_broadcast(&fake.free_sms);
}

static void give_sms(struct gpu *g, const struct sms *sms, const struct CUstream_st *s) {
    g->busy_queues &= ~(UINT32_C(1) << s->queue);
    for (int i = 0; i < MO_FAKE_SM_WORDS; i++)
        g->busy.w[i] &= ~sms->w[i];
    pthread_cond_broadcast(&fake.free_sms);
}

/* --- a stream's thread ---------------------------------------------------------------------------------- */

/* The fault that this kernel meets: -1 none, 0 it hangs, else the error. */
static int fault_of(const struct item *item) {
    for (int i = 0; i < FAULTS; i++) {
        struct kernel_fault *f = &fake.kernel_faults[i];
        if (!f->on || !strstr(item->what, f->name)) continue;
        if (f->skip-- > 0) continue;
        f->on = false;
        return (int)f->result;
    }
    return -1;
}

static void spend(struct CUstream_st *s, int64_t until) {
    const struct timespec t = at_ns(until);
    while (!s->context->gpu->poison && now_ns() < until)
        pthread_cond_timedwait(&s->wake, &fake.lock, &t);
}

/* Computes, then waits for the rest of its time.  The lock is held on entry and exit. */
static void carry_out(struct CUstream_st *s, struct item *item) {
    struct gpu *g = s->context->gpu;
    if (item->kernel) take_sms(g, &item->context->sms, s);
    const int fault = item->kernel ? fault_of(item) : -1;
    const int64_t begin = now_ns();
    if (fault == 0) {
        g->hung = true;
        pthread_cond_broadcast(&fake.idle); /* settle() waits for no GPU that hangs */
        while (!g->poison)
            pthread_cond_wait(&s->wake, &fake.lock);
    } else if (fault > 0 && !g->poison) {
        g->poison = (unsigned)fault;
    }
    if (!g->poison && item->fn) {
        pthread_mutex_unlock(&fake.lock);
        item->fn(item);
        pthread_mutex_lock(&fake.lock);
    }
    spend(s, begin + item->ns);
    if (!g->poison) record(item, s, begin, now_ns());
    if (item->kernel) give_sms(g, &item->context->sms, s);
    fake.ended += item->kernel;
}

static void do_item(struct CUstream_st *s, struct item *item) {
    if (s->context->gpu->poison) return;
    if (item->graph) {
        for (struct item *node = item->graph->first; node && !s->context->gpu->poison; node = node->next)
            carry_out(s, node);
    } else if (item->event) {
        item->event->when = now_ns();
        item->event->reached++;
    } else {
        carry_out(s, item);
    }
}

static void *stream_thread(void *arg) {
    struct CUstream_st *s = arg;
    pthread_mutex_lock(&fake.lock);
    for (;;) {
        while (!s->first && !s->stop)
            pthread_cond_wait(&s->wake, &fake.lock);
        if (!s->first) break;
        struct item *item = s->first;
        s->first = item->next;
        s->doing = item;
        do_item(s, item);
        s->doing = NULL;
        free(item);
        pthread_cond_broadcast(&fake.idle);
    }
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

void free_items(struct item *first) {
    while (first) {
        struct item *gone = first;
        first = gone->next;
        free(gone);
    }
}

static void append(struct item **first, struct item **last, const struct item *item) {
    struct item *copy = make(sizeof *copy);
    *copy = *item;
    copy->next = NULL;
    if (*first)
        (*last)->next = copy;
    else
        *first = copy;
    *last = copy;
}

unsigned push(struct CUstream_st *s, const struct item *item) {
    if (is_elsewhere(s->context)) {
        mistake("two threads are inside one green context");
        return INVALID_CONTEXT;
    }
    if (s->capturing) {
        if (item->event || item->graph) return CAPTURE_UNSUPPORTED; /* the plugin needs neither */
        append(&s->capturing->first, &s->capturing->last, item);
        return OK;
    }
    append(&s->first, &s->last, item);
    s->last->ticket = ++fake.queued;
    if (!s->started) {
        if (pthread_create(&s->thread, NULL, stream_thread, s)) abort();
        s->started = true;
    }
    pthread_cond_signal(&s->wake);
    return OK;
}

/* --- entry points --------------------------------------------------------------------------------------- */

static unsigned make_stream(mo_cu_stream *out, struct CUctx_st *c, int priority) {
    struct CUstream_st *s = make(sizeof *s);
    s->context = c;
    s->queue = c->gpu->streams++ % (fake.queues ? fake.queues : DEFAULT_QUEUES);
    s->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->next = fake.streams;
    fake.streams = s;
    fake.counts.streams++;
    *out = s;
    return OK;
}

unsigned cuStreamCreateWithPriority(mo_cu_stream *out, unsigned flags, int priority) {
    const unsigned r = enter("cuStreamCreateWithPriority", current_gpu());
    if (r) return r;
    if (!current()) return leave(INVALID_CONTEXT);
    return leave(flags == MO_CU_STREAM_NON_BLOCKING ? make_stream(out, current(), priority) : INVALID_VALUE);
}

unsigned cuGreenCtxStreamCreate(mo_cu_stream *out, mo_cu_green g, unsigned flags, int priority) {
    const unsigned r = enter("cuGreenCtxStreamCreate", g->context.gpu);
    if (r) return r;
    return leave(flags == MO_CU_STREAM_NON_BLOCKING ? make_stream(out, &g->context, priority)
                                                    : INVALID_VALUE);
}

static bool behind(const struct gpu *gpu, unsigned long ticket) {
    for (const struct CUstream_st *s = fake.streams; s; s = s->next) {
        const struct item *oldest = s->doing ? s->doing : s->first;
        const struct gpu *g = s->context->gpu;
        if (oldest && oldest->ticket <= ticket && (!gpu || g == gpu) && !g->poison && !g->hung) return true;
    }
    return false;
}

void settle(const struct gpu *gpu) {
    const unsigned long ticket = fake.queued;
    while (behind(gpu, ticket))
        pthread_cond_wait(&fake.idle, &fake.lock);
}

void end_stream(struct CUstream_st *s) {
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_cond_broadcast(&fake.free_sms);
    if (s->started) {
        pthread_mutex_unlock(&fake.lock);
        pthread_join(s->thread, NULL);
        pthread_mutex_lock(&fake.lock);
    }
    struct CUstream_st **at = &fake.streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_cond_destroy(&s->wake);
    free_items(s->first);
    free(s);
    fake.counts.streams--;
}

unsigned cuStreamDestroy_v2(mo_cu_stream s) {
    const unsigned r = enter("cuStreamDestroy_v2", s->context->gpu);
    if (r) return r;
    end_stream(s);
    return leave(OK);
}

unsigned cuStreamQuery(mo_cu_stream s) {
    const unsigned r = enter("cuStreamQuery", s->context->gpu);
    if (r) return r;
    if (s->context->gpu->poison) return leave(s->context->gpu->poison);
    return leave(s->first || s->doing ? NOT_READY : OK);
}

/* Waits for events of streams are not modelled across streams: the plugin has one stream a let. */
unsigned cuEventCreate(mo_cu_event *out, unsigned flags) {
    const unsigned r = enter("cuEventCreate", current_gpu());
    if (r) return r;
    if (!current() || flags) return leave(current() ? INVALID_VALUE : INVALID_CONTEXT);
    struct CUevent_st *e = make(sizeof *e);
    e->context = current();
    e->next = fake.events;
    fake.events = e;
    fake.counts.events++;
    *out = e;
    return leave(OK);
}

unsigned cuEventDestroy_v2(mo_cu_event e) {
    const unsigned r = enter("cuEventDestroy_v2", e->context->gpu);
    if (r) return r;
    if (e->asked != e->reached) mistake("an event ended before its stream reached it");
    struct CUevent_st **at = &fake.events;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    free(e);
    fake.counts.events--;
    return leave(OK);
}

unsigned cuEventRecord(mo_cu_event e, mo_cu_stream s) {
    const unsigned r = enter("cuEventRecord", s->context->gpu);
    if (r) return r;
    if (e->context != s->context) return leave(INVALID_HANDLE);
    const struct item item = {.context = s->context, .what = "event", .event = e};
    const unsigned pushed = push(s, &item);
    if (!pushed) e->asked++;
    return leave(pushed);
}

unsigned cuEventQuery(mo_cu_event e) {
    const unsigned r = enter("cuEventQuery", e->context->gpu);
    return r ? r : leave(e->asked == e->reached ? OK : NOT_READY);
}

unsigned cuEventElapsedTime(float *ms, mo_cu_event begin, mo_cu_event end) {
    const unsigned r = enter("cuEventElapsedTime", begin->context->gpu);
    if (r) return r;
    if (begin->context != end->context || !begin->asked || !end->asked) return leave(INVALID_HANDLE);
    if (begin->asked != begin->reached || end->asked != end->reached) return leave(NOT_READY);
    *ms = (float)((double)(end->when - begin->when) * 1e-6);
    return leave(OK);
}
