/* Two end points polled by hand in one thread, without an engine. */
#ifndef TESTS_TRANSPORT_SHM_ENDS_H
#define TESTS_TRANSPORT_SHM_ENDS_H

/* cmocka.h needs the first four. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdbool.h>
#include <string.h>

#include "transport/transport.h"

enum { END_MESSAGES = 64, END_BYTES = 256 };

/* An end point with one pair. Messages are at most END_BYTES long; received
 * ones are kept in order. */
typedef struct end {
  const gli_transport_ops *ops;
  gli_transport *t;
  uint32_t owed;
  gli_pair *pair; /* NULL: not open */
  gli_pair_config config;
  bool expects; /* opens the pair if the peer asks */
  int n_received, n_sent, n_failed;
  uint8_t types[END_MESSAGES];
  char texts[END_MESSAGES][END_BYTES];
  gloo_error cause;
  gli_send_request requests[END_MESSAGES];
  char sending[END_MESSAGES][END_BYTES];
  int n_posted;
} end;

/* Opens one end, of rank 0 or 1; the caller still has to set the peer's
 * address. */
void end_open(end *e, const gli_transport_ops *ops, int rank);
void end_close(end *e);

/* Opens ranks 0 and 1 on this transport, and introduces them; no pair is
 * open. */
void ends_open(end ends[2], const gli_transport_ops *ops);
void ends_close(end ends[2]);
gloo_status end_connect(end *e, gloo_error *error);
void end_send(end *e, const char *text);
void end_bye(end *e);

/* Polls one end until *counter is at least `value`; fails if it never is. */
void end_until(end *e, const int *counter, int value);
/* Polls both ends until *counter is at least `value`; fails if it never is. */
void ends_until(end ends[2], const int *counter, int value);
void ends_poll(end ends[2], int times);

#endif
