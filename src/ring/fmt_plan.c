#include "fmt_priv.h"
struct fmt_plan *fmt_plan_new(struct fmt *f, const struct fmt_event *e){(void)f;(void)e;return NULL;}
void fmt_plan_free(struct fmt_plan *p){(void)p;}
void fmt_plan_print(const struct fmt_plan *p, const struct fmt *f, const struct rec *rec, struct sbuf *out){(void)p;(void)f;(void)rec;(void)out;}
void fmt_plan_close(struct fmt *f){(void)f;}
