/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sched/toy_device.h"

#include "runtime/engine/device_impl.h"

static int fail(const struct toy *t, const char *what, moire_error *err) {
    return mo_fail(err, t->code, "toy: %s", what);
}

static int open_toy(struct mo_device *device, const void *options, void **self, struct mo_device_about *about,
                    moire_error *err) {
    struct toy *t = *self = (void *)(uintptr_t)options;
    t->device = device;
    about->n_units = TOY_UNITS;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->doorbell, NULL);
    return ++t->opened == t->fail_open ? fail(t, "open", err) : MOIRE_OK;
}

static void log_units(struct mo_device *d, const struct toy_block *b, int kind, int64_t now) {
    for (int c = b->run.lead; c >= 0; c = mo_cores_next(&b->run.cores, c))
        mo_event_put(mo_device_locked_ring(d), now, kind, b->query, b->run.tenant, b->run.begin, b->run.end,
                     c);
}

/* The lock is held. */
static void end(struct toy *t, int lead, int code) {
    const struct toy_block *b = &t->block[lead];
    const int64_t now = mo_now(t->device->env);
    log_units(t->device, b, MO_LOG_BLOCK_START, now);
    log_units(t->device, b, MO_LOG_BLOCK_END, now);
    mo_sched_stats(t->device->sched)->kernel_core_ns += b->run.n_cores;
    mo_sched_block_done(t->device->sched, lead, true, code, now - 1, now, NULL, now);
}

/* The block that is due, -1 = none is, or when the toy is held; waits for one until the toy stops. */
static int next_due(struct toy *t, int *code) {
    int lead = -1;
    pthread_mutex_lock(&t->lock);
    while (lead < 0 && !t->stop) {
        for (int i = 0; i < TOY_UNITS && !t->held; i++)
            if (t->block[i].due) lead = i;
        if (lead < 0) pthread_cond_wait(&t->doorbell, &t->lock);
    }
    if (lead >= 0) {
        t->block[lead].due = false;
        *code = ++t->ended >= t->fail_from && t->fail_from ? t->code : MOIRE_OK;
    }
    pthread_mutex_unlock(&t->lock);
    return lead;
}

static void *run(void *arg) {
    struct toy *t = arg;
    int lead, code = MOIRE_OK;
    while ((lead = next_due(t, &code)) >= 0) {
        mo_device_take(t->device);
        end(t, lead, code);
        mo_device_drop_and_deliver(t->device, mo_device_ring(t->device, 0), 0, 0); /* its ring */
    }
    return NULL;
}

static int begin(void *self, moire_error *err) {
    struct toy *t = self;
    if (++t->begun == t->fail_begin) return fail(t, "begin", err);
    t->running = !pthread_create(&t->thread, NULL, run, t);
    return t->running ? MOIRE_OK : MOIRE_EIO;
}

static void close_toy(void *self) {
    struct toy *t = self;
    t->closed++;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->doorbell);
    pthread_mutex_unlock(&t->lock);
    if (t->running) pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->doorbell);
    pthread_mutex_destroy(&t->lock);
}

/* The lock is held. */
static void start(void *self, const struct mo_run *decided) {
    struct toy *t = self;
    struct toy_block *b = &t->block[decided->lead];
    pthread_mutex_lock(&t->lock);
    *b = (struct toy_block){.run = *decided,
                            .query = mo_query_handle(mo_sched_queries(t->device->sched), decided->query),
                            .refused = ++t->started == t->refuse};
    b->due = !b->refused;
    pthread_cond_signal(&t->doorbell);
    pthread_mutex_unlock(&t->lock);
}

/* What was refused under the lock ends here. */
static void leave(void *self) {
    struct toy *t = self;
    int lead = -1;
    for (int i = 0; i < TOY_UNITS; i++)
        if (t->block[i].refused) lead = i;
    if (lead >= 0) t->block[lead].refused = false;
    if (mo_device_unlock(t->device)) mo_device_ring_doorbell(t->device);
    if (lead < 0) return;
    mo_device_take(t->device);
    end(t, lead, t->code);
    mo_device_drop(t->device);
    mo_device_note_change(t->device);
}

static int admit(void *self, const struct mo_device_tenant *config, int *tenant, moire_error *err) {
    struct toy *t = self;
    if (++t->admitted == t->fail_admit) return fail(t, "admit", err);
    return mo_device_admit(t->device, config, tenant, err);
}

static void forget(void *self, int tenant) {
    (void)tenant;
    ((struct toy *)self)->forgotten++;
}

const struct mo_device_calls toy_device = {
    .name = "toy",
    .open = open_toy,
    .begin = begin,
    .close = close_toy,
    .start = start,
    .leave = leave,
    .admit = admit,
    .forget = forget,
};

void toy_hold(struct toy *t, bool held) {
    pthread_mutex_lock(&t->lock);
    t->held = held;
    pthread_cond_broadcast(&t->doorbell);
    pthread_mutex_unlock(&t->lock);
}
