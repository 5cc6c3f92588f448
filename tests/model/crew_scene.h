/* A process with two threads that share an endpoint, as the engine permits, and
 * a peer. */
#ifndef GLI_TESTS_MODEL_CREW_SCENE_H
#define GLI_TESTS_MODEL_CREW_SCENE_H

#include "talk_scene.h"

typedef struct crew_script {
  talk_script talk;
  int posts[2]; /* messages that the thread posts first */
  int waits[2]; /* number of received messages to wait for; 0: the thread ends
                   at once; -n: it polls n times, and looks at descriptors */
} crew_script;

void crew_scene_set_up(const crew_script *script);

#endif
