// A small interpreter: loads, stores and branches that nothing predicts.
enum { PUSH, ADD, SUB, MUL, DUP, SWAP, JNZ, LOAD, STORE, HALT };
static const int program[] = {
	PUSH, 0, STORE, 1, PUSH, 200, STORE, 0,
	LOAD, 1, LOAD, 0, DUP, MUL, ADD, STORE, 1,
	LOAD, 0, PUSH, 1, SUB, DUP, STORE, 0, JNZ, 8, LOAD, 1, HALT,
};

static long run(long *variables)
{
	long stack[32], *top = stack;
	for (const int *at = program;; ) {
		long t;
		switch (*at++) {
		case PUSH: *top++ = *at++; break;
		case ADD: top--; top[-1] += *top; break;
		case SUB: top--; top[-1] -= *top; break;
		case MUL: top--; top[-1] *= *top; break;
		case DUP: *top = top[-1]; top++; break;
		case SWAP: t = top[-1]; top[-1] = top[-2]; top[-2] = t; break;
		case JNZ: at = *--top ? program + *at : at + 1; break;
		case LOAD: *top++ = variables[*at++]; break;
		case STORE: variables[*at++] = *--top; break;
		default: return *--top;
		}
	}
}

unsigned long work(unsigned long n)
{
	unsigned long sum = 0;
	long variables[2];
	while (n--) sum = sum * 3 + run(variables);
	return sum;
}
