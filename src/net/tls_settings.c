#include "net/tls_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/error.h"
#include "core/options.h"

/* ---- reading ------------------------------------------------------------- */

/* Copies the first string that is set. Returns false if out of memory. */
static bool settings_keep(const char *given, const char *otherwise,
                          char **kept) {
  const char *said = given != NULL ? given : otherwise;
  if (said == NULL) return true;
  *kept = strdup(said);
  return *kept != NULL;
}

static gloo_status settings_fill(gli_tls_settings *made,
                                 const gloo_tls_options *o, gloo_error *error) {
  const char *certificate = gli_environment_read("GLOO_TLS_CERTIFICATE");
  const char *key = gli_environment_read("GLOO_TLS_KEY");
  const char *authority = gli_environment_read("GLOO_TLS_AUTHORITY");
  const char *name = gli_environment_read("GLOO_TLS_NAME");
  if (!settings_keep(o->certificate, certificate, &made->certificate) ||
      !settings_keep(o->key, key, &made->key) ||
      !settings_keep(o->authority, authority, &made->authority) ||
      !settings_keep(o->name, name, &made->name) ||
      (made->key == NULL &&
       !settings_keep(made->certificate, NULL, &made->key)))
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the settings of TLS");
  made->password = o->password;
  made->user = o->user;
  return GLOO_OK;
}

/* Sets the kind. Returns an error if a certificate or authority is missing. */
static gloo_status settings_check(gli_tls_settings *made, gloo_error *error) {
  made->kind =
      made->certificate != NULL ? GLI_TLS_BY_CERTIFICATE : GLI_TLS_BY_SECRET;
  if (made->certificate == NULL && (made->key != NULL || made->name != NULL))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "TLS uses certificates (%s is set), but this rank has "
                    "none: set GLOO_TLS_CERTIFICATE to its file",
                    made->key != NULL ? "a key" : "a name");
  if (made->certificate != NULL && made->authority == NULL)
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "TLS with a certificate (%.120s) needs an authority to verify those of "
        "the other ranks: set GLOO_TLS_AUTHORITY to a file or a directory",
        made->certificate);
  return GLOO_OK;
}

static void settings_free(gli_tls_settings *settings) {
  gli_tls_context_destroy(settings->context);
  free(settings->certificate);
  free(settings->key);
  free(settings->authority);
  free(settings->name);
  free(settings);
}

static gloo_status settings_make(const gloo_tls_options *o, bool client,
                                 gli_tls_settings **settings,
                                 gloo_error *error) {
  gli_tls_settings *made = calloc(1, sizeof *made);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the settings of TLS");
  atomic_init(&made->holds, 1);
  gloo_status status = settings_fill(made, o, error);
  made->kind = GLI_TLS_BY_CERTIFICATE;
  if (status == GLOO_OK && !client) status = settings_check(made, error);
  if (status == GLOO_OK)
    status = gli_tls_context_create(made, &made->context, error);
  if (status == GLOO_OK)
    *settings = made;
  else
    settings_free(made);
  return status;
}

gloo_status gli_tls_settings_read(const gloo_tls_options *given,
                                  gli_tls_settings **settings,
                                  gloo_error *error) {
  gloo_tls_options o;
  bool use;
  gloo_status status =
      gli_options_load(&o, sizeof o, given, "gloo_tls_options", error);
  if (status == GLOO_OK)
    status = gli_switch_read(o.use, "GLOO_TLS", false, &use, error);
  if (status != GLOO_OK) return status;
  *settings = NULL;
  return use ? settings_make(&o, false, settings, error) : GLOO_OK;
}

gloo_status gli_tls_settings_read_client(gli_tls_settings **settings,
                                         gloo_error *error) {
  const gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  return settings_make(&o, true, settings, error);
}

/* ---- holding ------------------------------------------------------------- */

gli_tls_settings *gli_tls_settings_hold(gli_tls_settings *settings) {
  if (settings != NULL) atomic_fetch_add(&settings->holds, 1);
  return settings;
}

void gli_tls_settings_release(gli_tls_settings *settings) {
  if (settings != NULL && atomic_fetch_sub(&settings->holds, 1) == 1)
    settings_free(settings);
}

/* ---- descriptions -------------------------------------------------------- */

gli_tls_kind gli_tls_settings_kind(const gli_tls_settings *settings) {
  return settings != NULL ? settings->kind : GLI_TLS_NONE;
}

gloo_status gli_tls_suffices(gli_tls_kind kind, bool has_secret,
                             gloo_error *error) {
  if (has_secret || kind != GLI_TLS_BY_SECRET) return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_AUTH, -1,
      "TLS is on, but the ranks have neither a job secret nor certificates: "
      "set GLOO_JOB_SECRET to the same value on all ranks (openssl rand -hex "
      "32), or GLOO_TLS_CERTIFICATE and GLOO_TLS_AUTHORITY");
}

const char *gli_tls_kind_text(gli_tls_kind kind) {
  switch (kind) {
    case GLI_TLS_NONE:
      return "no TLS";
    case GLI_TLS_BY_SECRET:
      return "TLS with the job secret";
    case GLI_TLS_BY_CERTIFICATE:
      return "TLS with certificates";
    default:
      return "an unknown kind of TLS";
  }
}

gli_tls_text gli_tls_differs(gli_tls_kind own, gli_tls_kind other) {
  gli_tls_text differs;
  snprintf(differs.text, sizeof differs.text,
           "uses %s, and this rank %s: GLOO_TLS and GLOO_TLS_* must be the "
           "same on all ranks",
           gli_tls_kind_text(other), gli_tls_kind_text(own));
  return differs;
}
