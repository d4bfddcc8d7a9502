package queue

import "sync"

// Queue is a first-in first-out queue that is safe for concurrent use.
type Queue[T any] struct {
	mu    sync.Mutex
	items []T
}

// Push adds an item at the end.
func (q *Queue[T]) Push(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.it‸)
}

// Len tells how many items wait.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}
