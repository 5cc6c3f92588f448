#include "tools/run_rsh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "tools/tools.h"

/* ---- the command --------------------------------------------------------- */

bool gli_run_rsh_parse(const char *text, gli_run_rsh *rsh, int *exit_status,
                       gloo_error *error) {
  memset(rsh, 0, sizeof *rsh);
  size_t size = sizeof rsh->self;
  int result = uv_exepath(rsh->self, &size);
  rsh->text = strdup(text);
  *exit_status = GLI_EXIT_CANNOT_RUN;
  if (rsh->text == NULL || result != 0) {
    gli_fail(error, GLOO_ERR_IO, -1, "cannot find the path of this command: %s",
             result != 0 ? uv_strerror(result) : "out of memory");
    return false;
  }
  char *rest = NULL;
  int n = 0;
  for (char *word = strtok_r(rsh->text, " \t\n", &rest); word != NULL;
       word = strtok_r(NULL, " \t\n", &rest)) {
    if (n == GLI_RUN_RSH_WORDS) n = -1;
    if (n < 0) break;
    rsh->words[n++] = word;
  }
  if (n <= 0) {
    *exit_status = GLI_EXIT_USAGE;
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "option --rsh: '%s' is not a command of 1 to %d words",
             gli_quote(text).text, GLI_RUN_RSH_WORDS);
    return false;
  }
  const char *slash = strrchr(rsh->words[0], '/');
  rsh->name = slash == NULL ? rsh->words[0] : slash + 1;
  rsh->is_ssh = strcmp(rsh->name, "ssh") == 0;
  if (gli_run_find(rsh->words[0], rsh->path, exit_status, error)) return true;
  gli_error_prefix(error, "option --rsh: ");
  return false;
}

void gli_run_rsh_free(gli_run_rsh *rsh) {
  free(rsh->text);
  rsh->text = NULL;
}

/* Writes a word in quotes of sh, which csh and fish understand as well. */
static void put_word(FILE *out, const char *word) {
  fputc('\'', out);
  for (; *word != '\0'; word++) {
    if (*word == '\'')
      fputs("'\\''", out);
    else
      fputc(*word, out);
  }
  fputc('\'', out);
}

/* Returns the remote command, allocated: the login shell, of whatever kind,
 * executes sh, which tries the path of this command, then PATH. */
static char *remote_command(const char *self) {
  char *script = NULL, *line = NULL;
  size_t bytes;
  FILE *out = open_memstream(&script, &bytes);
  if (out == NULL) return NULL;
  fputs("g=", out);
  put_word(out, self);
  fputs("; [ -x \"$g\" ] || g=gloo; exec \"$g\" run --agent", out);
  if (fclose(out) != 0) goto free_script;
  out = open_memstream(&line, &bytes);
  if (out == NULL) goto free_script;
  fputs("exec sh -c ", out);
  put_word(out, script);
  if (fclose(out) != 0) {
    free(line);
    line = NULL;
  }
free_script:
  free(script);
  return line;
}

void gli_run_words_free(char **words) {
  for (size_t i = 0; words != NULL && words[i] != NULL; i++) free(words[i]);
  free(words);
}

static bool add_word(char **words, int *n, const char *word) {
  words[*n] = strdup(word);
  return words[(*n)++] != NULL;
}

/* Adds the options and the destination. */
static bool add_host_words(const gli_run_rsh *rsh, const gli_run_host *host,
                           char **words, int *n) {
  static const char *const options[] = {"-T", "-o", "BatchMode=yes", "-o",
                                        "ConnectTimeout=10"};
  char port[16], destination[sizeof host->user + sizeof host->name + 1];
  snprintf(destination, sizeof destination, "%s%s%s", host->user,
           host->user[0] != '\0' ? "@" : "", host->name);
  bool good = true;
  for (int i = 0; rsh->words[i] != NULL && good; i++)
    good = add_word(words, n, rsh->words[i]);
  for (int i = 0; rsh->is_ssh && i < 5 && good; i++)
    good = add_word(words, n, options[i]);
  if (host->port != 0) {
    snprintf(port, sizeof port, "%d", host->port);
    good = good && add_word(words, n, "-p") && add_word(words, n, port);
  }
  return good && add_word(words, n, destination);
}

char **gli_run_rsh_words(const gli_run_rsh *rsh, const gli_run_host *host,
                         bool local) {
  char **words = calloc(GLI_RUN_RSH_WORDS + 12, sizeof *words);
  if (words == NULL) return NULL;
  int n = 0;
  bool good;
  if (local) {
    good = add_word(words, &n, "gloo") && add_word(words, &n, "run") &&
           add_word(words, &n, "--agent");
  } else {
    char *remote = remote_command(rsh->self);
    good = remote != NULL && add_host_words(rsh, host, words, &n) &&
           add_word(words, &n, remote);
    free(remote);
  }
  if (good) return words;
  gli_run_words_free(words);
  return NULL;
}

/* ---- failures of ssh ----------------------------------------------------- */

/* Returns the last line that is not empty, in place, or "". */
static const char *last_line(char *text) {
  size_t bytes = strlen(text);
  while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]) != NULL)
    text[--bytes] = '\0';
  char *line = strrchr(text, '\n');
  line = line == NULL ? text : line + 1;
  gli_make_printable(line);
  return line;
}

typedef struct ssh_fault {
  const char *said; /* part of the messages of OpenSSH */
  const char *sentence;
} ssh_fault;

/* The first match counts. %1 is the host as ssh takes it. */
static const ssh_fault faults[] = {
    {"REMOTE HOST IDENTIFICATION HAS CHANGED",
     "its host key differs from the known one: if the host was reinstalled, "
     "remove the old key (ssh-keygen -R %1) and log in once by hand"},
    {"Host key verification failed",
     "its host key is unknown here: log in once by hand (ssh %1), or add the "
     "key to ~/.ssh/known_hosts"},
    {"host key is known for",
     "its host key is unknown here: log in once by hand (ssh %1), or add the "
     "key to ~/.ssh/known_hosts"},
    {"Permission denied",
     "it refuses to log in without a password: install your key there "
     "(ssh-copy-id %1), or load it (ssh-add)"},
    {"Too many authentication failures",
     "it refuses all keys of your ssh agent: name the right one in "
     "~/.ssh/config (IdentityFile, IdentitiesOnly)"},
    {"Could not resolve hostname",
     "the name does not resolve: check its spelling, the DNS and "
     "~/.ssh/config"},
    {"Connection refused",
     "it refuses connections to the port of ssh: start sshd there, or set the "
     "port (user@host:port)"},
    {"No route to host",
     "the network has no route to it: check that it is up, and the network"},
    {"Network is unreachable",
     "the network has no route to it: check that it is up, and the network"},
    {"timed out",
     "it did not answer within the time limit of ssh: check that it is up, "
     "and firewalls"},
    {"kex_exchange_identification",
     "it closed the connection before the login: check its sshd "
     "(MaxStartups), or start fewer hosts at once (--parallel)"},
    {"Connection closed by",
     "it closed the connection at the login: check the log of its sshd"},
    {"Connection reset",
     "it closed the connection at the login: check the log of its sshd"},
    {"exec request failed",
     "its sshd cannot start processes for you: end some there, or raise the "
     "limit of the user or the control group (ulimit -u, pids.max)"},
};

static void put_fault(const char *sentence, const char *name, char *text,
                      size_t room) {
  const char *mark = strstr(sentence, "%1");
  if (mark == NULL)
    snprintf(text, room, "%s", sentence);
  else
    snprintf(text, room, "%.*s%s%s", (int)(mark - sentence), sentence, name,
             mark + 2);
}

/* Writes "ssh was killed by signal 9" and the like. */
static void put_end(const char *name, const gli_run_child_end *end, char *text,
                    size_t room) {
  if (!end->exited)
    snprintf(text, room, "%s has not ended", name);
  else if (end->signum != 0)
    snprintf(text, room, "%s was killed by signal %d (%s)", name, end->signum,
             strsignal(end->signum));
  else
    snprintf(text, room, "%s: exit status %d", name, end->status);
}

void gli_run_rsh_explain(const gli_run_rsh *rsh, const gli_run_host *host,
                         gli_run_child_end *end, char *text, size_t room) {
  const char *name = end->local ? "its agent" : rsh->name;
  char how[128], destination[sizeof host->user + sizeof host->name + 1];
  snprintf(destination, sizeof destination, "%s%s%s", host->user,
           host->user[0] != '\0' ? "@" : "", host->name);
  put_end(name, end, how, sizeof how);
  bool status = end->exited && end->signum == 0;
  if (!end->greeted && status && end->status == 255) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
      if (strstr(end->said, faults[i].said) == NULL) continue;
      put_fault(faults[i].sentence, destination, text, room);
      return;
    }
  }
  if (!end->greeted && status && end->status == GLI_EXIT_NOT_FOUND) {
    snprintf(text, room,
             "gloo is missing there: it is neither %s nor in the PATH of "
             "commands that %s starts; install gloo_c there, at the same path",
             rsh->self, name);
    return;
  }
  if (!end->greeted && status && end->status == GLI_EXIT_USAGE &&
      strstr(end->said, "--agent") != NULL) {
    snprintf(text, room,
             "gloo there is older than agents: install the same version of "
             "gloo_c on all hosts");
    return;
  }
  const char *line = last_line(end->said);
  snprintf(text, room, "%s (%s%s%.300s)",
           end->greeted ? "its connection ended" : "its agent did not start",
           how, line[0] != '\0' ? ": " : "", line);
}
