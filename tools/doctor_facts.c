/* Facts that a rank can determine about its own host, without other ranks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <uv.h>

#include "core/cpu.h"
#include "core/environment.h"
#include "core/memory_left.h"
#include "core/text.h"
#include "net/host_name.h"
#include "net/interfaces.h"
#include "net/tcp_address.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/tcp/tcp_connection.h"
#include "security/trust.h"
#include "tools/bench_meeting.h"
#include "tools/doctor.h"

#define MIB ((uint64_t)1 << 20)
/* Descriptors beyond those of ranks: the program's and the system's. */
enum { FILES_SPARE = 128 };
#define REACH_NS INT64_C(3000000000)
#define LOOKUP_NS INT64_C(1000000000)

void gli_doctor_find(gli_doctor_facts *facts, const char *id,
                     const char *format, ...) {
  if (facts->n_findings == GLI_DOCTOR_FINDINGS) return;
  gli_doctor_finding *f = &facts->findings[facts->n_findings++];
  (void)snprintf(f->id, sizeof f->id, "%s", id);
  va_list list;
  va_start(list, format);
  (void)vsnprintf(f->text, sizeof f->text, format, list);
  va_end(list);
}

/* ---- the network --------------------------------------------------------- */

static void list_interfaces(gli_doctor_facts *facts) {
  gli_interfaces all;
  gloo_error error;
  bool up = false;
  if (gli_interfaces_read(&all, &error) != GLOO_OK) {
    gli_doctor_find(facts, "no_netlink",
                    "%.150s; let this process use netlink sockets",
                    error.message);
    return;
  }
  gli_interfaces_text(&all, facts->interfaces);
  for (size_t i = 0; i < all.n; i++)
    up = up || (all.list[i].up && !all.list[i].loopback);
  gli_interfaces_free(&all);
  if (!up)
    gli_doctor_find(facts, "no_interface",
                    "no network interface except loopback is up, so ranks on "
                    "other hosts cannot connect; bring one up");
}

/* Reports a host name of rank 0 that resolves to loopback on another host. */
static void check_name(const gli_launch *launch, const gli_store_url *url,
                       gli_doctor_facts *facts) {
  gli_endpoints found;
  gli_endpoint figures;
  if (launch->rank == 0 || gli_endpoint_from_text(url->host, &figures) ||
      strcmp(url->host, "localhost") == 0 || gli_host_name_is_own(url->host) ||
      gli_host_resolve(url->host, LOOKUP_NS, &found, NULL) != GLOO_OK ||
      !gli_endpoint_is_loopback(&found.at[0]))
    return;
  char text[GLI_ENDPOINT_TEXT_BYTES];
  gli_endpoint_text(&found.at[0], text);
  gli_doctor_find(facts, "name_is_loopback",
                  "'%s' resolves to %s on this host, which is loopback; remove "
                  "the name from that line of /etc/hosts, or use an address",
                  gli_quote(url->host).text, text);
}

void gli_doctor_reach(const gli_launch *launch, char text[GLI_DOCTOR_TEXT]) {
  gli_store_url url;
  gli_tcp_addresses found;
  gloo_error error;
  (void)snprintf(text, GLI_DOCTOR_TEXT, "%s",
                 launch->store[0] == '\0' ? "no store" : "not tried");
  if (launch->store[0] == '\0' ||
      gli_store_url_read(launch->store, &url, NULL) != GLOO_OK ||
      url.host[0] == '\0')
    return;
  if (gli_tcp_resolve("the store", url.host, url.port, REACH_NS, &found,
                      &error) != GLOO_OK) {
    (void)snprintf(text, GLI_DOCTOR_TEXT, "%.200s", error.message);
    return;
  }
  for (size_t i = 0; i < found.n; i++) {
    gli_tcp_connection *connection;
    uint64_t begun = uv_hrtime();
    gloo_status status = gli_tcp_connection_open(&found.list[i], false,
                                                 gli_deadline_after(REACH_NS),
                                                 &connection, &error);
    if (status != GLOO_OK) {
      (void)snprintf(text, GLI_DOCTOR_TEXT, "%.200s", error.message);
      continue;
    }
    (void)snprintf(text, GLI_DOCTOR_TEXT, "%s answers after %.1f ms",
                   gli_tcp_address_name(&found.list[i]).text,
                   (double)(uv_hrtime() - begun) / 1e6);
    gli_tcp_connection_close(&connection->base);
    return;
  }
}

/* ---- limits -------------------------------------------------------------- */

static uint64_t limit_of(rlim_t limit) {
  return limit == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit;
}

static void look_at_limits(uint32_t ranks, gli_doctor_facts *facts) {
  struct rlimit limit;
  facts->files = facts->files_most = facts->locked = UINT64_MAX;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts->files = limit_of(limit.rlim_cur);
    facts->files_most = limit_of(limit.rlim_max);
  }
#ifdef RLIMIT_MEMLOCK
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    facts->locked = limit_of(limit.rlim_cur);
#endif
  /* Two for each pair, if all ranks communicate with all others. */
  uint64_t wanted = 2 * (uint64_t)ranks + FILES_SPARE;
  if (facts->files < wanted)
    gli_doctor_find(facts, "open_files",
                    "this process may open %llu files, and %u ranks may take "
                    "%llu; ulimit -n %llu",
                    (unsigned long long)facts->files, (unsigned)ranks,
                    (unsigned long long)wanted, (unsigned long long)wanted);
}

static void look_at_memory(gli_doctor_facts *facts) {
  struct statvfs shared;
  facts->memory_left = gli_memory_left();
  facts->shared_left = UINT64_MAX;
  if (statvfs("/dev/shm", &shared) == 0)
    facts->shared_left = (uint64_t)shared.f_bavail * shared.f_frsize;
  if (facts->memory_left < 256 * MIB)
    gli_doctor_find(facts, "memory",
                    "only %llu MiB of memory are left for this process; give "
                    "the machine or its control group more",
                    (unsigned long long)(facts->memory_left / MIB));
}

static void look_at_transports(gli_doctor_facts *facts) {
  static const char *const names[] = {"tcp", "shm"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    gloo_error error;
    if (gloo_transport_usable(names[i], &error) != GLOO_OK)
      gli_doctor_find(facts, "transport",
                      "transport %s does not work here: %.150s", names[i],
                      error.message);
  }
}

/* Reports peers that are not authenticated. PMI launchers distribute a secret
 * if the ranks have none. */
/* Returns true if ranks meet at a loopback address: other hosts do not reach it,
 * and the library excludes other users there. */
static bool meets_on_loopback(const gli_launch *launch) {
  gli_store_url url;
  gli_endpoints found;
  return gli_store_url_read(launch->store, &url, NULL) == GLOO_OK &&
         url.host[0] != '\0' &&
         gli_host_resolve(url.host, LOOKUP_NS, &found, NULL) == GLOO_OK &&
         gli_endpoint_is_loopback(&found.at[0]);
}

static void look_at_security(const gli_launch *launch,
                             gli_doctor_facts *facts) {
  gli_trust trust;
  const char *scheme = launch->store;
  facts->openssl = gli_openssl_version() != NULL;
  facts->auth = GLI_DOCTOR_AUTH_UNUSED;
  if (launch->size == 1) return;
  facts->auth = GLI_DOCTOR_AUTH_NONE;
  if (gli_trust_read(NULL, 0, &trust, NULL) != GLOO_OK)
    return; /* gloo_init reports it */
  bool told = facts->openssl != 0 && (strncmp(scheme, "pmi:", 4) == 0 ||
                                      strncmp(scheme, "pmix:", 5) == 0);
  if (trust.silent) {
    facts->auth = GLI_DOCTOR_AUTH_OFF;
  } else if (trust.asks || told) {
    facts->auth = GLI_DOCTOR_AUTH_ON;
  } else if (meets_on_loopback(launch)) {
    facts->auth = GLI_DOCTOR_AUTH_HOST;
  } else if (facts->openssl == 0) {
    gli_doctor_find(facts, "no_openssl",
                    "this library was built without OpenSSL, so ranks do not "
                    "authenticate each other: anyone who can reach their ports "
                    "can join the job; install OpenSSL 3 with its headers "
                    "(libssl-dev) and build the library again, or set "
                    "GLOO_SECURITY=off to accept this");
  } else {
    gli_doctor_find(facts, "no_secret",
                    "no job secret is set, so ranks do not authenticate each "
                    "other: anyone who can reach their ports can join the job; "
                    "set GLOO_JOB_SECRET to the same value on all ranks "
                    "(openssl rand -hex 32), or GLOO_SECURITY=off to accept "
                    "this");
  }
  gli_trust_release(&trust);
}

static void look_at_variables(gli_doctor_facts *facts) {
  gli_long_text unknown = gli_environment_unknown();
  if (unknown.text[0] != '\0')
    gli_doctor_find(facts, "unknown_variable",
                    "environment variables without effect: %s; correct or "
                    "remove them",
                    unknown.text);
}

void gli_doctor_look(const gli_launch *launch, gli_doctor_facts *facts) {
  memset(facts, 0, sizeof *facts);
  (void)snprintf(facts->version, sizeof facts->version, "%s", gloo_version());
  size_t bytes = sizeof facts->host;
  if (uv_os_gethostname(facts->host, &bytes) != 0)
    (void)snprintf(facts->host, sizeof facts->host, "unknown");
  facts->cores = gli_cpu_effective();
  gli_cores_here(&facts->bound);
  facts->online = gli_meeting_cores();
#if GLI_LINUX
  facts->quota = gli_cpu_quota("");
#endif
  list_interfaces(facts);
  look_at_limits(launch->size, facts);
  look_at_memory(facts);
  look_at_transports(facts);
  look_at_security(launch, facts);
  look_at_variables(facts);
  gli_store_url url;
  if (launch->size > 1 &&
      gli_store_url_read(launch->store, &url, NULL) == GLOO_OK &&
      url.host[0] != '\0')
    check_name(launch, &url, facts);
}
