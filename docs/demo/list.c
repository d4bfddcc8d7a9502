#include <stdlib.h>

struct node {
    int value;
    struct node *next;
};

/* Put a value in front of the list and return the new head. */
struct node *list_push(struct node *head, int value) {
    struct node *fresh = mall‸
    fresh->value = value;
    fresh->next = head;
    return fresh;
}
