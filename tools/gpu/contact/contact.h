/* SPDX-License-Identifier: Apache-2.0
 * contact.h - gpu-contact: what the plugin assumes of driver and libraries, asked one by one; see contact.c.
 */
#ifndef MO_GPU_CONTACT_H
#define MO_GPU_CONTACT_H
#include "runtime/gpu/cuda/cuda.h"

enum { CONTACT_GROUPS = 64 };

/* The GPU as one probe sees it: its primary context is current. */
struct contact {
    struct mo_env env;
    const char *folder; /* of the libraries; NULL: the loader's search */
    struct mo_cuda_object object;
    struct mo_cuda_driver cu;
    mo_cu_device device;
    mo_cu_context primary;
    struct mo_cu_resource all, rest, groups[CONTACT_GROUPS];
    unsigned n, size; /* groups, SMs of each */
    mo_cu_library library;
    mo_cu_kernel kernel; /* mo_probe: notes its SM and stays there for 100,000 cycles */
    mo_cu_ptr seen;      /* a word for each SM */
    bool small;          /* sizes for a stand-in that computes on the host */
    const char *probe;
    int failed;
};

/* A let as the plugin makes them. */
struct contact_let {
    mo_cu_green green;
    mo_cu_context context;
    mo_cu_stream stream;
    mo_cu_event begin, end; /* of the green context */
    unsigned sms;
};

/* One row of the table: a JSON line.  ok: 1 as the plugin needs it, 0 not so, -1 a number only. */
void contact_row(struct contact *c, int ok, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The driver's name of a result; "ok" for 0. */
const char *contact_name(const struct contact *c, unsigned result);
double contact_ms(void);

/* Groups [first, first + n), or the whole GPU before its split where n is 0.  0, or the driver's result. */
unsigned contact_let_open(struct contact *c, unsigned first, unsigned n, struct contact_let *out);
void contact_let_close(struct contact *c, struct contact_let *let);
/* Puts mo_probe into a stream, with `rounds` full loads of `sms` SMs. */
unsigned contact_spin(struct contact *c, mo_cu_stream stream, unsigned sms, unsigned rounds);
/* Waits at most ten seconds; MO_CU_LAUNCH_TIMEOUT then. */
unsigned contact_wait(struct contact *c, mo_cu_stream stream);
/* SMs noted since the last clearing, as text; their number. */
int contact_seen(struct contact *c, char *text, size_t n);
unsigned contact_clear(struct contact *c, mo_cu_stream stream);

/* The probes: contact_lets.c, contact_libraries.c. */
void contact_split(struct contact *c);
void contact_events(struct contact *c);
void contact_overlap(struct contact *c);
void contact_graphs(struct contact *c);
void contact_memory(struct contact *c);
void contact_blas(struct contact *c);
void contact_dnn(struct contact *c);
#endif
