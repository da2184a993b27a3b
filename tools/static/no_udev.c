/* SPDX-License-Identifier: Apache-2.0
 * no_udev.c - the five calls of libudev that libhwloc.a makes, for programs that are linked with -static.
 *
 * Debian ships libhwloc.a but no libudev.a.  hwloc asks udev only for vendors and serials of disks and
 * network cards, which moire never looks at, and does without them when udev_new() gives NULL; so this one
 * always does. A program that needs these names links a libudev.a of its own before libmoire-no-udev.a. */
#include <stddef.h>

struct udev;
struct udev_device;
struct udev *udev_new(void);
struct udev *udev_unref(struct udev *udev);
struct udev_device *udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem,
                                                           const char *name);
const char *udev_device_get_property_value(struct udev_device *device, const char *key);
struct udev_device *udev_device_unref(struct udev_device *device);

struct udev *udev_new(void) {
    return NULL;
}

struct udev *udev_unref(struct udev *udev) {
    (void)udev;
    return NULL;
}

struct udev_device *udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem,
                                                           const char *name) {
    (void)udev, (void)subsystem, (void)name;
    return NULL;
}

const char *udev_device_get_property_value(struct udev_device *device, const char *key) {
    (void)device, (void)key;
    return NULL;
}

struct udev_device *udev_device_unref(struct udev_device *device) {
    (void)device;
    return NULL;
}
