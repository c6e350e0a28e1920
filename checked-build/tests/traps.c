int zeroes[16];
const int constant[4] = { 1, 2, 3, 4 };
int (*volatile nobody)(int);
extern long twice(long), sum(const char *, long);

long memory(long at) { return *(volatile long *)at; }
long store(long at) { *(volatile long *)at = 1; return at; }
long constants(void) { *(volatile int *)&constant[1] = 5; return 0; }
long deep(long n);
long (*volatile deeper)(long) = deep;
long deep(long n) { return n ? 1 + deeper(n + 1) * n : 0; }
long wide(long n) { volatile char room[4096]; room[0] = n; return n ? wide(n + 1) + room[0] : 0; }
long divide(long a, long b) { return a / b; }
void unreachable(void) { __builtin_trap(); }
long call(long slot) { nobody = (int (*)(int))slot; return nobody(7); }
long imports(long n) { long (*volatile f)(long) = twice; return twice(n) + f(1) + sum("abc", 3); }
long well(long n) { return n + zeroes[n & 15]; }
