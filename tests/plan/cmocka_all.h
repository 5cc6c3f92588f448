/* cmocka, and what it wants included first. */
#ifndef GLI_TESTS_CMOCKA_ALL_H
#define GLI_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
