/* The race of connection attempts to several addresses. */
#ifndef GLI_NET_TCP_RACE_H
#define GLI_NET_TCP_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define GLI_TCP_RACE_MAX 16

/* Connects to the addresses in turn, each started before the one before it has
 * failed (RFC 8305), and returns the index of the first that answers; all
 * connections are closed again. Skips addresses with failed[i] set, and sets it
 * for those that fail. -1: all have failed, or the time is up; then *code is
 * the cause of the last failure (errno, or ETIMEDOUT). */
int gli_tcp_race(const struct sockaddr_storage *addresses, size_t n,
                 uint64_t deadline_ns, bool *failed, int *code);

#endif
