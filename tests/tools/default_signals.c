/* Runs a program with default handling of the signals that shells ignore for
 * background commands, and nohup for any. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  signal(SIGHUP, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  signal(SIGQUIT, SIG_DFL);
  execvp(argv[1], argv + 1);
  perror(argv[1]);
  return 127;
}
