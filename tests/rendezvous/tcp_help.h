/* Servers and clients for the tests of the TCP store. */
#ifndef TESTS_RENDEZVOUS_TCP_HELP_H
#define TESTS_RENDEZVOUS_TCP_HELP_H

#include <stdint.h>

#include "gloo_c/store.h"

/* Returns options for job "job", epoch 7, at 127.0.0.1, with a long timeout. */
gloo_store_tcp_options options_for(uint16_t port);
gloo_store *serve(uint16_t port);
gloo_store *join(uint16_t port);

/* Fails unless the message contains this word, or this port at 127.0.0.1. */
void expect_message(const gloo_error *error, const char *word);
void expect_address(const gloo_error *error, uint16_t port);

/* Fails unless the store works. */
void expect_served(gloo_store *store);

/* Setup and teardown of each test; teardown fails if a descriptor leaks. */
int descriptors_setup(void **state);
int descriptors_teardown(void **state);
#define TEST(name) \
  cmocka_unit_test_setup_teardown(name, descriptors_setup, descriptors_teardown)

#endif
