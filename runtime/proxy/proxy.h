/* SPDX-License-Identifier: Apache-2.0
 * proxy.h - the linear model from counters to pressure (VELTAIR, section 4.3), and its file.
 *
 *   # moire-proxy 1
 *   # source papi                     whose observables the terms are
 *   # note R2 0.93 over 288 rows      for people; any number of such lines
 *   term,coefficient
 *   intercept,-0.02                   first
 *   l3_miss_rate,1.31                 an observable of the source; one that is not named does not count
 *
 * pressure = intercept + sum of coefficient x observable, cut to 0 .. 1.  Refused with file and line: what is
 * no proxy, names no source or no observable of it, names one twice, or holds what is no number. */
#ifndef MO_PROXY_H
#define MO_PROXY_H
#include "runtime/proxy/source.h"

struct mo_proxy {
    const struct mo_source *source;
    double intercept, coefficient[MO_OBSERVABLES];
};

int mo_proxy_parse(const char *path, const char *text, size_t n, struct mo_proxy *out, moire_error *err);
int mo_proxy_read(const struct mo_env *env, const char *path, struct mo_proxy *out, moire_error *err);
/* The file's text, at most n bytes with the final 0; its length.  `note` is one line, "" = none. */
size_t mo_proxy_text(const struct mo_proxy *proxy, const char *note, char *out, size_t n);
/* 0 to 1. */
double mo_proxy_pressure(const struct mo_proxy *proxy, const double *observed);
#endif
