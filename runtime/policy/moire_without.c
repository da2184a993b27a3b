/* SPDX-License-Identifier: Apache-2.0
 * moire_without.c - `moire` less one part each; for the ablation table, not for service. */
#include "runtime/policy/moire.h"

static void without_fit(void *state, const struct mo_view *view, const struct mo_event *event,
                        struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {false, true, true, true, true, true, true, true};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}
static void without_balance(void *state, const struct mo_view *view, const struct mo_event *event,
                            struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {true, false, true, true, true, true, true, true};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}
static void without_reserve(void *state, const struct mo_view *view, const struct mo_event *event,
                            struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {true, true, false, true, true, true, true, true};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}
static void without_spare(void *state, const struct mo_view *view, const struct mo_event *event,
                          struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {true, true, true, false, true, true, true, true};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}
static void without_early(void *state, const struct mo_view *view, const struct mo_event *event,
                          struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {true, true, true, true, false, true, true, true};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}
static void without_meet(void *state, const struct mo_view *view, const struct mo_event *event,
                         struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {true, true, true, true, true, false, true, true};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}

static void without_quick(void *state, const struct mo_view *view, const struct mo_event *event,
                          struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {true, true, true, true, true, true, false, true};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}
static void without_versions(void *state, const struct mo_view *view, const struct mo_event *event,
                             struct mo_decisions *out) {
    static const struct mo_moire_parts parts = {true, true, true, true, true, true, true, false};
    (void)event;
    mo_moire_dispatch(state, view, out, &parts);
}

const struct mo_policy mo_policy_without_fit = {
    .name = "moire-no-fit",
    .description = "moire, never setting a query aside that may still make it",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_fit,
};
const struct mo_policy mo_policy_without_balance = {
    .name = "moire-no-balance",
    .description = "moire, every miss counting the same",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_balance,
};
const struct mo_policy mo_policy_without_reserve = {
    .name = "moire-no-reserve",
    .description = "moire, keeping no room for tighter targets to come",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_reserve,
};
const struct mo_policy mo_policy_without_spare = {
    .name = "moire-no-spare",
    .description = "moire, cores that nobody needs stay idle",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_spare,
};
const struct mo_policy mo_policy_without_early = {
    .name = "moire-no-early",
    .description = "moire, just in time",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_early,
};
const struct mo_policy mo_policy_without_meet = {
    .name = "moire-no-meet",
    .description = "moire, taking the cores there are",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_meet,
};
const struct mo_policy mo_policy_without_versions = {
    .name = "moire-no-versions",
    .description = "moire, every layer in its fastest version",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_versions,
};
const struct mo_policy mo_policy_without_quick = {
    .name = "moire-no-quick",
    .description = "moire, what is set aside taking any cores that are left",
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = without_quick,
};
