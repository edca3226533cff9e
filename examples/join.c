/* Join words into one text. `strcat` looks for the end of the text each time; with -DFIXED, `join` remembers it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 80000 };

__attribute__((noinline)) static size_t join(char *text, const char *word) {
#ifdef FIXED
    static char *end;
    if (!*text) end = text;
    end = stpcpy(end, word);
    return end - text;
#else
    strcat(text, word);
    return strlen(text);
#endif
}

__attribute__((noinline)) static size_t report(char *text) {
    char word[16];
    size_t length = 0;
    *text = 0;
    for (int n = 0; n < WORDS; n++) {
        snprintf(word, sizeof word, "word%d ", n);
        length = join(text, word);
    }
    return length;
}

int main(void) {
    char *text = malloc(16 * WORDS);
    size_t length = 0;
    for (int n = 0; n < 4; n++) length += report(text);
    printf("%zu\n", length);
    free(text);
    return 0;
}
