// Doubles and floats, vectorised by the compiler.
#define N 64
static double a[N][N], b[N][N], c[N][N];
static float f[N * N];

unsigned long work(unsigned long n)
{
	double sum = 0;
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			a[i][j] = i * 0.5 + j;
			b[i][j] = i - j * 0.25;
			f[i * N + j] = i / (j + 1.0f);
		}
	while (n--) {
		for (int i = 0; i < N; i++)
			for (int j = 0; j < N; j++) {
				double s = 0;
				for (int k = 0; k < N; k++) s += a[i][k] * b[k][j];
				c[i][j] = s;
			}
		for (int i = 0; i < N * N; i++) f[i] = f[i] * 0.99f + (float)(int)c[0][i % N];
		sum += c[n % N][7] + __builtin_sqrt(c[3][3] < 0 ? -c[3][3] : c[3][3]);
	}
	return (unsigned long)(long)(sum + f[77]);
}
