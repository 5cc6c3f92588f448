/* A process with two threads that share an end point, as the engine lets them,
 * and a peer. */
#ifndef GLI_TESTS_MODEL_CREW_SCENE_H
#define GLI_TESTS_MODEL_CREW_SCENE_H

#include "talk_scene.h"

typedef struct crew_script {
  talk_script talk;
  int posts[2]; /* messages that a thread posts first */
  int waits[2]; /* for so many messages to have come; 0: it leaves at once;
                   -n: it polls n times, and looks at descriptors */
} crew_script;

void crew_scene_set_up(const crew_script *script);

#endif
