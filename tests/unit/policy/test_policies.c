/* SPDX-License-Identifier: Apache-2.0
 * test_policies.c - the policy table: what each row is for, and who may have it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "moire_research.h"
#include "runtime/serve/runtime.h"

/* Every row is found by name and may be served with, unless it is for research; ablations all are. */
static void policies_say_what_they_are_for(void **state) {
    (void)state;
    const struct mo_policy *const *const tables[] = {mo_policies(), mo_policy_ablations(),
                                                     mo_policy_servers(), mo_policy_classes()};
    int n[4][2] = {{0}};
    for (int i = 0; i < 4; i++)
        for (const struct mo_policy *const *p = tables[i]; *p; p++) {
            const struct mo_policy *found;
            moire_error err;
            n[i][(*p)->research]++;
            assert_int_equal((*p)->gpus, i == 2);
            assert_int_equal(mo_policy_choose((*p)->name, i == 2, false, &found, &err),
                             (*p)->research ? MOIRE_EINVAL : MOIRE_OK);
            assert_true(found == *p);
            if ((*p)->research) assert_non_null(strstr(err.message, "for research"));
            assert_int_equal(mo_policy_choose((*p)->name, i == 2, true, &found, NULL), MOIRE_OK);
            assert_int_equal(mo_policy_choose((*p)->name, i != 2, true, &found, NULL), MOIRE_EINVAL);
        }
    assert_true(n[0][0] > 1 && !n[0][1] && !n[1][0] && n[1][1] > 1 && n[2][0] > 1 && n[2][1] > 1 &&
                n[3][0] > 1 && n[3][1] > 1);
    char names[300], cut[8];
    assert_null(strstr(mo_policy_names(true, false, names, sizeof names), "moire-gpu-own"));
    assert_non_null(strstr(mo_policy_names(true, true, names, sizeof names), "moire-gpu-own"));
    assert_string_equal(mo_policy_names(false, false, cut, sizeof cut), "moire, ");
}

/* Rows for research are refused, by name and with those there are to serve with; a study may have them. */
static void research_policies_are_for_studies(void **state) {
    (void)state;
    moire_config c;
    moire_runtime *rt = NULL;
    moire_error err;
    moire_config_init(&c);
    c.threads = 1;
    c.generic_only = 1;
    c.policy = "moire-no-fit";
    assert_int_equal(moire_runtime_create(&c, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'moire-no-fit' is for research"));
    assert_non_null(strstr(err.message, "moire, fcfs, fcfs-1"));
    assert_null(strstr(err.message, "moire-no-share"));
    assert_int_equal(moire_research_create(&c, &rt, &err), MOIRE_OK);
    assert_string_equal(rt->policy->name, "moire-no-fit");
    moire_runtime_destroy(rt, 1);
    c.policy = NULL;
    c.device = "nothere"; /* the policy is looked at first */
    c.device_policy = "ideal";
    assert_int_equal(moire_runtime_create(&c, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'ideal' is for research"));
    assert_non_null(strstr(err.message, "moire-gpu, gpulet-int"));
    c.device_policy = "mps"; /* a study of a simulated machine */
    assert_int_equal(moire_research_create(&c, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'mps' is for simulated machines"));
    c.policy = "sbp";
    c.device = NULL;
    assert_int_equal(moire_research_create(&c, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no policy 'sbp' for cores"));
}

/* Every row stands on its page, under what it is for. */
static void the_page_lists_every_row(void **state) {
    (void)state;
    static char page[16384];
    FILE *f = fopen("docs/policies.md", "r");
    assert_non_null(f);
    page[fread(page, 1, sizeof page - 1, f)] = 0;
    fclose(f);
    const struct mo_policy *const *const tables[] = {mo_policies(), mo_policy_ablations(),
                                                     mo_policy_servers(), mo_policy_classes()};
    for (int i = 0; i < 4; i++)
        for (const struct mo_policy *const *p = tables[i]; *p; p++) {
            char row[100];
            snprintf(row, sizeof row, "\n| `%s` |", (*p)->name);
            char *at = strstr(page, row), *under = page;
            if (!at) fail_msg("docs/policies.md has no row for '%s'", (*p)->name);
            for (char *s = page; (s = strstr(s, "\nFor ")) && s < at; s++)
                under = s;
            if (!strncmp(under, "\nFor research", 13) != (*p)->research)
                fail_msg("docs/policies.md has '%s' in the wrong table", (*p)->name);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_say_what_they_are_for),
        cmocka_unit_test(research_policies_are_for_studies),
        cmocka_unit_test(the_page_lists_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
