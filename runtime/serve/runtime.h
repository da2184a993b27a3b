/* SPDX-License-Identifier: Apache-2.0
 * runtime.h - the inside of the public handles, shared by the files of runtime/serve and by tests; tools and
 * bench have parts.h. */
#ifndef MO_SERVE_RUNTIME_H
#define MO_SERVE_RUNTIME_H
#include "runtime/power/core_clock.h"
#include "runtime/power/cores_power.h"
#include "runtime/power/joules.h"
#include "runtime/proxy/sampler.h"
#include "runtime/serve/accounting.h"
#include "runtime/serve/parts.h"
#include "runtime/serve/spill.h"

struct mo_common;
struct mo_serve_device;
struct mo_serve_gpu;

/* What moire_energy() tells (joules_rows.c). */
struct mo_serve_energy {
    struct mo_power_kind kind; /* of the cores, as their scheduler's meter models them */
    struct mo_power_machine machine;
    struct mo_core_clock *clock; /* NULL: clocks stay as they are */
    struct mo_lock lock;         /* guards what follows */
    bool opened;
    double before; /* modelled joules when it was opened */
    struct mo_energy_boards boards;
    struct mo_joules joules;
};

struct moire_runtime {
    struct mo_env env;
    struct mo_topology *topology;
    struct mo_engine *engine;
    struct mo_device *cores;        /* its last device */
    const struct mo_policy *policy; /* of the cores */
    bool research;                  /* it may be one for research */
    struct mo_store *store;         /* NULL: generic kernels only */
    struct mo_spill_pools pools;    /* of activations */
    enum mo_isa isa;
    struct mo_serve_device *device; /* GPUs (serve/gpu.h); NULL = none */
    struct mo_serve_energy energy;
    struct mo_sampler *sampler; /* of counters; NULL: observed slowdown only */
    bool memory_known;          /* its ceiling has been measured, or cannot be */
    bool recording;             /* plans are to be stored: always from ONNX, see mo_image_record() */
    struct mo_lock loading;     /* one load at a time, */
    struct mo_lock binding;     /* and one beside it of those that are made at once */
    struct mo_lock listing;     /* guards what follows up to `past`; held for list work and copies only */
    struct mo_common *commons;  /* what tenants of one file share (common.h), linked by next */
    int n_tenants;
    uint64_t loads;                  /* ever begun */
    moire_tenant *tenants;           /* linked by next */
    struct mo_loading *being_loaded; /* linked likewise */
    struct mo_account past;          /* of tenants that are gone */
    int64_t created;
    _Atomic bool closing;
    const _Atomic uint32_t *here; /* 0: we are in a child that was forked; NULL: nobody can tell */
};

/* Inputs that belong to the caller until they are read: by the worker that begins the query, or by nobody,
 * where its answer comes first.  loan.c. */
struct mo_loan {
    void (*returned)(void *user); /* NULL: the request has copies */
    _Atomic int state;
};

/* What every query has beside its slot: the first member of the requests of each device. */
struct mo_request_head {
    struct mo_caller caller;
    struct mo_arrival arrival; /* as its caller gave it, for a device that takes it over; user: the request */
    struct mo_loan loan;
};

/* How queries of a tenant are kept on a device: request.c on cores, gpu_request.c on GPUs. */
struct mo_place_calls {
    /* NULL: out of memory.  lent: without room for inputs. */
    struct mo_request_head *(*take)(void *self, bool lent);
    void (*give)(void *self, struct mo_request_head *request);
    /* Where the bytes of input i go. */
    void *(*input)(void *self, struct mo_request_head *request, int i);
    /* The bytes of input i stay where they are; NULL: the device needs copies. */
    void (*lend)(void *self, struct mo_request_head *request, int i, const void *data);
};

/* A device that a tenant is loaded on. */
struct mo_place {
    const struct mo_place_calls *calls;
    void *self;
    int tenant; /* of the engine */
};

/* On cores: input bytes follow. */
struct mo_request {
    struct mo_request_head head;
    struct mo_arena *self; /* what it lies in, one of the tenant's */
    struct mo_spill spill; /* its activations, from its first block on */
    bool begun;            /* its inputs are among them */
    _Atomic bool unwanted; /* it has been answered, though a block of it may run: mo_instance_heed() */
    const char *input[];   /* n_inputs pointers into this allocation, or to what is lent */
};

/* A load that has not ended, on the stack of its caller. */
struct mo_loading {
    struct mo_loading *next;
    uint64_t number;
    const char *name;
};

struct moire_tenant {
    moire_runtime *runtime;
    struct mo_accounting accounting;
    moire_tenant *next;
    uint64_t number; /* from 1; no other tenant of the runtime has it, or had it */
    char *name;
    /* Its inputs and outputs: the plan's graph, or one of its own that has nothing else. */
    const struct mo_graph *ports;
    /* Of cores; of a tenant with device_only all of it is 0. */
    struct mo_plan *plan;
    struct mo_compiled compiled; /* what the plan lies in, when it came from the store */
    struct mo_common *common;    /* what it shares; NULL: nothing */
    bool at_once;                /* planned and foreseen from that alone */
    struct mo_profile *profile;
    struct mo_slow slow;                   /* layers that run by the slow reference */
    struct mo_sched_tenant_config serving; /* as the engine was told */
    int n_instances;
    struct mo_instance **instances;
    moire_tensor *outputs; /* n_instances rows of n_outputs */
    size_t request_bytes;
    struct mo_arenas *requests;
    struct mo_live *live;
    struct mo_spiller spiller;
    _Atomic int64_t version_runs[MOIRE_VERSIONS];
    struct mo_serve_gpu *gpu; /* what it has on GPUs; NULL = nothing */
    /* Where it is loaded: its queries go to the first, and to the next when that has failed them. */
    int n_places;
    struct mo_place place[MO_ENGINE_DEVICES];
};

/* --- inside runtime/serve --- */
/* MOIRE_EFORKED in a child that was forked after the runtime was made. */
int mo_runtime_here(const moire_runtime *runtime, moire_error *err);
/* pressure.c: chooses where pressure comes from, as the config asks; counters that cannot be had cost a line
 * in the log.  *out is for the engine.  MOIRE_EINVAL: no such source, or not the proxy's; MOIRE_EFORMAT and
 * MOIRE_EIO: the proxy. */
int mo_pressure_open(moire_runtime *runtime, const moire_config *config, bool recorded,
                     struct mo_pressure_source *out, moire_error *err);
/* joules_rows.c: the model of the cores' power, for their scheduler. */
void mo_serve_power_of_cores(moire_runtime *runtime, struct mo_device_config *device);
/* tenants.c: the list of tenants.  A load is in it from its beginning, on the stack of its caller; it becomes
 * a tenant, or is taken out.  A tenant that is gone leaves its counts. */
void mo_tenants_load(moire_runtime *runtime, struct mo_loading *loading);
void mo_tenants_not_loaded(moire_runtime *runtime, struct mo_loading *loading);
void mo_tenants_loaded(struct mo_loading *loading, moire_tenant *tenant);
void mo_tenants_gone(moire_tenant *tenant);
int mo_tenants_count(moire_runtime *runtime);
/* tenant_layers.c: puts into the profile what layers read and write, which of them have versions to choose
 * from (runtime/sched/demand.h), and their operations, by which some policies share targets. */
int mo_tenant_describe_layers(moire_tenant *tenant, moire_error *err);
/* tenant_profile.c: memory for the first query, and the profile; and, once a runtime, what memory gives. */
int mo_tenant_measure(moire_tenant *tenant, moire_error *err);
void mo_tenant_measure_memory(moire_tenant *tenant);
/* tenant_slow.c: finds the hot layers that run by the slow reference, and warns of them in the log. */
int mo_tenant_find_slow(moire_tenant *tenant, moire_error *err);
void mo_tenant_log_slow(const moire_tenant *tenant);
/* Ends the open queries with `code` and frees the tenant. */
void mo_tenant_close(moire_tenant *tenant, int code);
extern const struct mo_place_calls mo_place_on_cores;
/* loan.c.  Lent inputs are to be read; false: they were given back. */
bool mo_loan_read(struct mo_request_head *request);
/* They have been read. */
void mo_loan_end(struct mo_request_head *request);
/* Nobody has begun to read them and nobody will: they are given back. */
void mo_loan_forgo(struct mo_request_head *request);
/* places.c.  Opens the tenant on a device: its queries go there first.  place->tenant is filled in. */
int mo_tenant_open_place(moire_tenant *tenant, int device, const struct mo_device_tenant *config,
                         const struct mo_place *place, moire_error *err);
/* Its number in the scheduler and the events of the place of `self`. */
int mo_tenant_index(const moire_tenant *tenant, const void *self);
/* Ends the open queries with `code`. */
void mo_tenant_close_places(moire_tenant *tenant, int code);
/* A query is answered at the place of `self`.  True: its device has failed it and another place has taken it
 * over; its user gets no answer yet.  False: nobody has. */
bool mo_tenant_move(moire_tenant *tenant, const void *self, struct mo_request_head *request,
                    const struct mo_answer *answer);
int mo_request_check(const moire_tenant *tenant, const moire_tensor *inputs, int n_inputs, moire_error *err);
struct mo_request *mo_request_take(moire_tenant *tenant, bool lent);
void mo_request_give(moire_tenant *tenant, struct mo_request *request);
/* Gives back the request whose activations have left; see mo_spiller.freed. */
void mo_request_left(void *tenant, struct mo_spill *spill);
/* Size of a request; 0 when it overflows. */
size_t mo_request_size(const struct mo_graph *graph);
#endif
