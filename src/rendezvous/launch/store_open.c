/* Stores by URL. */
#include <stdio.h>
#include <string.h>

#include "core/environment.h"
#include "rendezvous/launch/launch.h"
#include "rendezvous/launch/store_pmi.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/store_url.h"
#include "security/trust.h"

static gloo_status open_file_url(const gli_store_url *url, int64_t timeout_ns,
                                 gloo_store **store, gloo_error *error) {
  char directory[GLI_STORE_URL_MAX + 2];
  gloo_store_file_options o = GLOO_STORE_FILE_OPTIONS_INIT;
  (void)timeout_ns;
  snprintf(directory, sizeof directory, "/%s", url->path);
  o.directory = directory;
  return gloo_store_file_create(&o, store, error);
}

static gloo_status open_tcp_url(const gli_store_url *url, int64_t timeout_ns,
                                gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = url->host;
  o.port = url->port;
  o.timeout_ns = timeout_ns;
  return gloo_store_tcp_create(&o, store, error);
}

static gloo_status open_redis_url(const gli_store_url *url, int64_t timeout_ns,
                                  gloo_store **store, gloo_error *error) {
  bool tls = strcmp(url->scheme, "rediss") == 0;
  return gli_store_redis_open(url, tls, timeout_ns, store, error);
}

static bool is_pmi(const gli_store_url *url) {
  return strcmp(url->scheme, "pmi") == 0 || strcmp(url->scheme, "pmix") == 0;
}

static gloo_status open_pmi(const gli_store_url *url,
                            const gloo_store_tcp_options *how,
                            gloo_store **store, gloo_error *error) {
  gli_pmi_kind kind =
      strcmp(url->scheme, "pmix") == 0 ? GLI_PMI_PMIX : GLI_PMI_SIMPLE;
  gli_pmi_job job;
  gloo_status status = gli_pmi_join(kind, how->timeout_ns, &job, error);
  if (status != GLOO_OK) return status;
  return gli_store_pmi_open(kind, job.rank, how, store, error);
}

static gloo_status open_pmi_url(const gli_store_url *url, int64_t timeout_ns,
                                gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.timeout_ns = timeout_ns;
  return open_pmi(url, &o, store, error);
}

/* PMI launchers distribute a secret if the ranks have none. */
gloo_status gli_launch_check_secret(const gli_launch *launch,
                                    gloo_error *error) {
  gli_store_url url;
  if (launch->size == 1) return GLOO_OK;
  gloo_status status = gli_store_url_read(launch->store, &url, error);
  if (status != GLOO_OK || is_pmi(&url)) return status;
  return gli_trust_check(launch->secret, launch->secret_bytes, NULL, error);
}

gloo_status gli_launch_open(const gli_launch *launch, bool serve,
                            int64_t timeout_ns, gloo_store **store,
                            gloo_error *error) {
  gli_store_url url;
  if (launch->size == 1) return gloo_store_memory_create(store, error);
  gloo_status status = gli_store_url_read(launch->store, &url, error);
  if (status != GLOO_OK) return status;
  if (!launch->serves && strcmp(url.scheme, "tcp") != 0 && !is_pmi(&url))
    return gloo_store_open(launch->store, timeout_ns, store, error);
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = url.host;
  o.port = url.port;
  if (launch->serves) { /* no job for other servers */
    o.serve = serve;
    o.job = launch->job;
    o.epoch = launch->epoch;
  }
  o.timeout_ns = timeout_ns;
  o.secret = launch->secret;
  o.secret_bytes = launch->secret_bytes;
  o.tls = launch->tls;
  return is_pmi(&url) ? open_pmi(&url, &o, store, error)
                      : gloo_store_tcp_create(&o, store, error);
}

static gloo_status open_environment(const gli_store_url *url,
                                    int64_t timeout_ns, gloo_store **store,
                                    gloo_error *error) {
  gli_launch launch;
  (void)url;
  gloo_status status = gli_launch_read(&launch, error);
  if (status != GLOO_OK) return status;
  return gli_launch_open(&launch, launch.rank == 0, timeout_ns, store, error);
}

typedef struct kind {
  const char *scheme;
  gloo_status (*open)(const gli_store_url *url, int64_t timeout_ns,
                      gloo_store **store, gloo_error *error);
} kind;

/* Kinds of stores that a URL can name. */
static const kind kinds[] = {
    {"file", open_file_url},       {"tcp", open_tcp_url},
    {"c10d", gli_store_c10d_open}, {"redis", open_redis_url},
    {"rediss", open_redis_url},    {"pmi", open_pmi_url},
    {"pmix", open_pmi_url},        {"env", open_environment},
};

gloo_status gloo_store_open(const char *text, int64_t timeout_ns,
                            gloo_store **store, gloo_error *error) {
  gli_store_url url;
  if (text == NULL || store == NULL)
    return gli_fail(
        error, GLOO_ERR_INVALID, -1, "gloo_store_open: %s",
        text == NULL ? "the URL is NULL" : "`store` must not be NULL");
  gloo_status status = gli_store_url_read(text, &url, error);
  if (status != GLOO_OK) return status;
  status = gli_timeout_of_start(timeout_ns, &timeout_ns, error);
  if (status != GLOO_OK) return status;
  const kind *k = kinds;
  while (strcmp(k->scheme, url.scheme) != 0) k++;
  return k->open(&url, timeout_ns, store, error);
}
