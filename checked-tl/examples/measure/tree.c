struct tree {
	long tag;
	struct tree *left;
	long value;
	struct tree *right;
};

/* As the module: memory that is taken and forgotten at the next call. */
static struct tree heap[40000];
static long next;

static struct tree *node(struct tree *left, long value, struct tree *right)
{
	struct tree *it = &heap[next++];
	*it = (struct tree){ 1, left, value, right };
	return it;
}

static __attribute__((noinline)) struct tree *insert(struct tree *tree, long n, struct tree *empty)
{
	if (!tree->tag)
		return node(empty, n, empty);
	if (n < tree->value)
		return node(insert(tree->left, n, empty), tree->value, tree->right);
	if (n > tree->value)
		return node(tree->left, tree->value, insert(tree->right, n, empty));
	return tree;
}

static __attribute__((noinline)) long sum(struct tree *tree)
{
	if (!tree->tag)
		return 0;
	return sum(tree->left) + tree->value + sum(tree->right);
}

long work(long n)
{
	static struct tree empty;
	struct tree *tree = &empty;
	next = 0;
	for (long i = 0; i < 500; i++) {
		n = (n * 1103515245 + 12345) & 0x7fffffff;
		tree = insert(tree, n, &empty);
	}
	return sum(tree);
}
