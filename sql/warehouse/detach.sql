DETACH {{ alias }}
