/* SPDX-License-Identifier: Apache-2.0
 * repository_impl.h - inside the repository: the table, the loader, models. */
#ifndef MS_REPOSITORY_IMPL_H
#define MS_REPOSITORY_IMPL_H
#include "serve/repository/repository.h"

void ms_say(struct ms_repository *r, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* repository.c.  Puts a model in the place of the one of its name and version, which it returns, or behind
 * all (NULL). One that could not be loaded does not replace one that serves: it is returned itself. */
struct ms_model *ms_repository_place(struct ms_repository *r, struct ms_model *m);
/* Takes the models of that name out of the table, but for versions that `keep` (NULL: none) has. */
void ms_repository_drop(struct ms_repository *r, const char *name, const struct ms_scan *keep);
/* A model that is not in the table any more: destroyed as soon as nobody holds it. */
void ms_repository_retire(struct ms_model *m);
/* Destroys one that nobody holds; false: there is none. */
bool ms_repository_sweep(struct ms_repository *r);

/* model_load.c.  Loads a model; its state says whether that went well.  NULL: no memory. */
struct ms_model *ms_model_make(struct ms_repository *r, const struct ms_found *found,
                               const struct ms_settings *settings, moire_error *err);
struct ms_model *ms_model_blank(struct ms_repository *r);
void ms_model_destroy(struct ms_model *m);

/* bindings.c.  Those least lately used go until shape_memory is kept to; all of a model do. */
void ms_bindings_trim(struct ms_repository *r);
void ms_bindings_close(struct ms_model *m);

/* model_loader.c.  Loads or unloads by name, the models of the folder; refresh: what is new, changed or gone.
 * depth: of ensembles, 0 as called from outside.  Errors are those of a load, and said to the log. */
int ms_loader_load(struct ms_repository *r, const char *name, int depth, moire_error *err);
int ms_loader_unload(struct ms_repository *r, const char *name, bool all, moire_error *err);
void ms_loader_refresh(struct ms_repository *r);
bool ms_loader_stops(struct ms_repository *r); /* no further load is to begin */

/* jobs.c: the threads. */
void *ms_loader(void *repository);
void *ms_binder(void *repository);
void *ms_background(void *repository);
#endif
