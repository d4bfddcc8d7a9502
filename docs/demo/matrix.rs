pub struct Matrix {
    rows: usize,
    columns: usize,
    cells: Vec<f64>,
}

impl Matrix {
    pub fn new(rows: usize, columns: usize) -> Self {
        Matrix { rows, columns, cells: vec![0.0; rows * col‸] }
    }

    pub fn get(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.columns + column]
    }
}
