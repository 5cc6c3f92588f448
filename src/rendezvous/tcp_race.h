/* Which of several addresses answers first. */
#ifndef GLI_RENDEZVOUS_TCP_RACE_H
#define GLI_RENDEZVOUS_TCP_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define GLI_TCP_RACE_MAX 16

/* Connect to one after the other, without waiting for long until the next has
 * its turn (as RFC 8305 has it), and return the number of the one that answers
 * first; all connections are closed again. Addresses with failed[i] set are
 * left out, and it is set for those that fail. -1: all have failed, or the time
 * is up; then *code says why the last one did (errno, or ETIMEDOUT). */
int gli_tcp_race(const struct sockaddr_storage *addresses, size_t n,
                 uint64_t deadline_ns, bool *failed, int *code);

#endif
